"""Function words, compiled for Termweave: a phrase made only of these is no term and never a constraint."""

from __future__ import annotations

_ENGLISH = """
a an the this that these those some any no none each every either neither both all half such same other
another i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it
its itself we us our ours ourselves they them their theirs themselves one ones oneself who whom whose
which what where when why how whoever whatever whichever wherever whenever however am is are was were be
been being do does did doing done have has had having will would shall should can could may might must
ought need cannot isn't aren't wasn't weren't don't doesn't didn't haven't hasn't hadn't won't wouldn't
shan't shouldn't can't couldn't mustn't needn't ain't n't 's 're 've 'll 'd 'm ’s ’re ’ve ’ll ’d ’m s t re
ve ll d m and or but nor so yet for because since although though unless until while whereas if whether
than as of to in on at by with from into onto upon about above across after against along among amongst
around before behind below beneath beside besides between beyond despite down during except inside like
near off out outside over past per regarding concerning round through throughout till toward towards under
underneath up via within without not never only just also too very quite rather almost already always
often ever again once here there then now thus hence therefore still even much many more most less least
few fewer little several enough well perhaps maybe indeed mr mrs ms let yes
"""

_GERMAN = """
der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner keines dieser
diese dieses diesen diesem jener jene jenes jenen jenem jeder jede jedes jeden jedem mancher manche
manches manchen manchem solcher solche solches solchen solchem welcher welche welches welchen welchem alle
aller alles allen allem beide beiden beider beides einige einigen einiger einiges etliche mehrere mehreren
mehrerer viele vielen vieler vieles viel wenig wenige wenigen weniger andere anderen anderer anderes
anderem derselbe dieselbe dasselbe derjenige diejenige dasjenige diejenigen denjenigen derjenigen ich mich
mir mein meine meinen meinem meiner meines du dich dir dein deine deinen deinem deiner deines er ihn ihm
sein seine seinen seinem seiner seines sie ihr ihre ihren ihrem ihrer ihres es wir uns unser unsere
unseren unserem unserer unseres unsre euch euer eure euren eurem eurer eures ihnen man sich selbst selber
wer wen wem wessen was wo wohin woher wann warum weshalb wieso wie womit wodurch wofür woran worauf woraus
worin worüber wovon wozu dessen deren denen bin bist ist sind seid war warst waren wart sei seien wäre
wären gewesen habe hast hat haben habt hatte hatten hätte hätten gehabt werde wirst wird werden werdet
wurde wurden würde würden worden geworden kann kannst können könnt konnte konnten könnte könnten muss muß
musst müssen müsst musste mußte mussten mußten müsste müßte müssten müßten soll sollst sollen sollt sollte
sollten will willst wollen wollt wollte wollten darf darfst dürfen dürft durfte durften dürfte dürften mag
mögen mochte möchte möchten lassen lässt läßt und oder aber denn sondern doch sowie sowohl weder noch
entweder dass daß weil da wenn falls ob obwohl obgleich während bevor nachdem seit seitdem bis damit indem
sodass als ab an am ans auf aufs aus außer außerhalb bei beim bezüglich binnen durch durchs entgegen
entlang für fürs gegen gegenüber gemäß hinter im in ins infolge innerhalb laut mit mittels nach neben ohne
pro samt statt trotz über um ums unter unterhalb vom von vor vors wegen wider zu zum zur zwischen
zugunsten hinsichtlich aufgrund anhand anstatt nicht nie niemals nur auch schon immer wieder sehr ganz so
mehr meist meisten fast etwa eben gerade bereits bloß ja nein hier dort dann nun jetzt heute also daher
deshalb deswegen darum dabei dadurch dafür dagegen dahin damals danach daneben daran darauf daraus darin
darüber darunter davon davor dazu hierbei hierfür hiermit hierzu jedoch dennoch trotzdem allerdings
außerdem ferner zudem sonst vielleicht etwas nichts jemand niemand einmal mal wohl zwar bzw usw 's ’s herr
frau
"""

_CHINESE = """
的 地 得 了 着 过 们 之 者 所 等 第 个 些 种 这 那 这个 那个 这些 那些 这样 那样 这里 那里 这种 那种 此 该
其 其他 其它 其中 某 某些 各 每 每个 各个 另 另外 一 一个 一些 一种 几 多 许多 很多 少 任何 所有 全部 一切
本 同 同样 我 你 您 他 她 它 我们 你们 您们 他们 她们 它们 咱们 自己 自身 大家 人家 我的 你的 您的 他的
她的 它的 谁 什么 哪 哪个 哪些 哪里 怎么 怎样 如何 为什么 多少 何 何时 是 不是 有 没有 没 无 不 未 非 别
勿 会 能 能够 可 可以 可能 应 应该 应当 须 必须 需 需要 要 想 将 将要 被 把 使 让 令 给 叫 由 做 作 作为
成为 进行 予以 加以 和 与 及 以及 或 或者 或是 还是 并 并且 而 而且 但 但是 可是 然而 不过 虽然 尽管 因为
因 由于 所以 因此 因而 从而 于是 如果 若 如 假如 倘若 只要 只有 除非 无论 不论 不管 即使 既 既然 则 那么
否则 不仅 不但 甚至 以便 以免 在 于 从 自 自从 到 至 向 往 朝 对 对于 关于 按 按照 根据 依 依照 依据 据
通过 经 经过 以 用 为 为了 跟 比 除 除了 沿 当 随 随着 凭 就 替 距 离 上 下 中 内 外 里 前 后 间 之间 之前
之后 以上 以下 以内 以外 时 时候 的话 也 都 又 再 还 才 只 仅 仅仅 已 已经 正 正在 曾 曾经 刚 刚刚 便 即
却 很 非常 太 更 更加 最 较 比较 十分 极 相当 越 稍 几乎 大约 约 左右 总 总是 常 常常 经常 往往 一直 一般
通常 先 然后 首先 最后 现在 目前 今天 这时 同时 一起 共同 分别 互相 相互 吗 呢 吧 啊 呀 嘛 哦 嗯 请 不能
不会 不要 不可 不得 还有 就是 只是 都是 也是
"""

STOP_WORDS: dict[str, frozenset[str]] = {
    "en": frozenset(_ENGLISH.split()),
    "de": frozenset(_GERMAN.split()),
    "zh": frozenset(_CHINESE.split()),
}


def is_punctuation(word: str) -> bool:
    """Whether there is neither letter nor digit in `word`."""
    return not any(map(str.isalnum, word))


def is_content(word: str, language: str) -> bool:
    """Whether `word` can make a phrase worth a constraint: no stop word, no digit or numeral, not punctuation."""
    if is_punctuation(word) or any(map(str.isdigit, word)) or all(map(str.isnumeric, word)):
        return False
    return word.casefold() not in _casefolded(language)


def _casefolded(language: str) -> frozenset[str]:
    return _CASEFOLDED.get(language, frozenset())


_CASEFOLDED = {language: frozenset(word.casefold() for word in words) for language, words in STOP_WORDS.items()}
