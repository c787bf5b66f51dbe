"""Outputs that say the same over and over: "i.e. i.e. i.e. i.e. …".

A plain search ends before a model gets there. An output that must first meet something cannot end, and where the model
would not say what it must, it may find repeating itself the likeliest thing to do meanwhile. Such an output is searched
for again with the repetition forbidden, a few times; it is taken all the same if nothing better comes of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from termweave.decoding.batching import Request
from termweave.decoding.beam import Hypothesis
from termweave.text.vocabulary import Vocabulary

REPEATS = 4  # in a row; people do say things three times
LONGEST = 8  # tokens of what is repeated
MOST_SEARCHES = 3  # of a sentence, for this


def repeated(tokens: Sequence[int]) -> tuple[int, ...]:
    """The shortest run of tokens that stands REPEATS times in a row somewhere; none: ()."""
    for period in range(1, LONGEST + 1):
        same = 0
        for place in range(period, len(tokens)):
            same = same + 1 if tokens[place] == tokens[place - period] else 0
            if same == (REPEATS - 1) * period:
                return tuple(tokens[place + 1 - period : place + 1])
    return ()


def stutters(request: Request, hypothesis: Hypothesis) -> bool:
    """Does the output, which must meet something, repeat itself as the source does not?"""
    return bool(request.wishes.required and repeated(hypothesis.tokens)) and not repeated(request.source)


def best_first(request: Request, hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Different outputs, those that stutter behind the others."""
    different = {hypothesis.tokens: hypothesis for hypothesis in hypotheses}.values()
    return sorted(different, key=lambda hypothesis: (stutters(request, hypothesis), -hypothesis.score))


def without_stutter(request: Request, hypotheses: Iterable[Hypothesis], subwords: Vocabulary) -> Request:
    """The request with forbidden, twice in a row, what outputs repeat; what is required stays possible."""
    targets = [target for constraint in request.wishes.required for target in constraint.targets]
    units = {_from_a_word_on(repeated(hypothesis.tokens), subwords) for hypothesis in hypotheses}
    twice = {subwords.decode(unit * 2) for unit in units if unit}
    new = sorted(text for text in twice if text and not any(text in target for target in targets))
    return replace(request, wishes=replace(request.wishes, forbidden=(*request.wishes.forbidden, *new)))


def _from_a_word_on(unit: tuple[int, ...], subwords: Vocabulary) -> tuple[int, ...]:
    """The unit turned round so that it begins with a word; () if none begins in it."""
    turned = (unit[start:] + unit[:start] for start in range(len(unit)))
    return next((own for own in turned if subwords.starts_word(own)[0]), ())
