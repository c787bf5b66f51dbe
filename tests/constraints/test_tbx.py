"""TBX of 2008 and of 2019, and what must not happen when XML is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.constraints.tbx import read_tbx
from termweave.constraints.tbx_writing import write_tbx
from termweave.errors import DataError

OLD = """<?xml version="1.0"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang="de"><text><body>
<termEntry id="t1">
  <note>first
     note</note>
  <langSet xml:lang="en">
    <tig><term>yard</term></tig>
    <ntig><termGrp><term>court<hi>yard</hi></term>
      <termNote type="administrativeStatus">preferredTerm-admn-sts</termNote></termGrp></ntig>
    <tig><term>farm</term><termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote></tig>
  </langSet>
  <langSet xml:lang="de-DE"><tig><term>
     Hof
  </term><note>of a house</note></tig><tig><term>Innenhof</term></tig></langSet>
</termEntry>
<termEntry id="t2"><langSet xml:lang="de-DE"><tig><term>Tor</term></tig></langSet></termEntry>
</body></text></martif>
"""
DCA = """<tbx style="dca" type="TBX-Basic" xml:lang="de" xmlns="urn:iso:std:iso:30042:ed-2"><text><body>
<conceptEntry id="c1"><admin type="x-termweave-policy">prefer</admin><admin type="x-termweave-case">exact</admin>
<langSec xml:lang="de"><termSec><term>Hof</term></termSec></langSec>
<langSec xml:lang="en"><termSec><term>yard</term></termSec>
<termSec><term>court</term><termNote type="administrativeStatus">preferredTerm-admn-sts</termNote></termSec></langSec>
<langSec xml:lang="fr"><termSec><term>cour</term></termSec></langSec>
</conceptEntry></body></text></tbx>
"""
DCT = """<tbx style="dct" type="TBX-Basic" xml:lang="de" xmlns="urn:iso:std:iso:30042:ed-2"
 xmlns:min="http://www.tbxinfo.net/ns/min" xmlns:own="urn:termweave:glossary"><text><body>
<conceptEntry id="c1"><own:policy>prefer</own:policy><own:case>exact</own:case>
<langSec xml:lang="de"><termSec><term>Hof</term></termSec></langSec>
<langSec xml:lang="en"><termSec><term>yard</term></termSec>
<termSec><term>court</term><min:administrativeStatus>preferredTerm-admn-sts</min:administrativeStatus></termSec></langSec>
</conceptEntry></body></text></tbx>
"""


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "terms.tbx"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def body(inner: str, root_language: str = "de") -> str:
    return f'<tbx xml:lang="{root_language}"><text><body>\n{inner}\n</body></text></tbx>'


def concept(**terms: str) -> str:
    sides = (
        f'<langSec xml:lang="{code}"><termSec><term>{term}</term></termSec></langSec>' for code, term in terms.items()
    )
    return f"<conceptEntry>{''.join(sides)}</conceptEntry>"


def test_2008(tmp_path: Path) -> None:
    glossary = read_tbx(write(tmp_path, OLD))
    first, second = "first note\nof a house", "first note"
    assert glossary == Glossary(
        (
            GlossaryEntry("Hof", ("courtyard", "yard"), note=first),
            GlossaryEntry("Hof", ("farm",), "forbid", note=first),
            GlossaryEntry("Innenhof", ("courtyard", "yard"), note=second),
            GlossaryEntry("Innenhof", ("farm",), "forbid", note=second),
        ),
        "de-DE",
        "en",
    )
    assert glossary.passed_over == 1
    assert [entry.line for entry in glossary.entries] == [13, 13, 15, 15]


@pytest.mark.parametrize("text", [DCA, DCT], ids=["dca", "dct"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_2019(tmp_path: Path, text: str, encoding: str) -> None:
    glossary = read_tbx(write(tmp_path, text.encode(encoding)), "de", "en")
    assert glossary == Glossary((GlossaryEntry("Hof", ("court", "yard"), "prefer", "exact"),), "de", "en")


@pytest.mark.parametrize(
    ("codes", "root", "asked", "found"),
    [
        (("de", "en"), "de", ("", ""), ("de", "en")),
        (("de", "en"), "en", ("", ""), ("en", "de")),
        (("de", "en"), "", ("", ""), ("de", "en")),
        (("de", "en"), "fr", ("", ""), ("de", "en")),
        (("de-AT", "en-GB"), "en", ("", ""), ("en-GB", "de-AT")),
        (("de", "en"), "de", ("en", ""), ("en", "de")),
        (("de", "en"), "de", ("", "de"), ("en", "de")),
        (("de", "en", "fr"), "de", ("fr", "de"), ("fr", "de")),
        (("de_AT", "de-DE", "en"), "de", ("de-de", "en"), ("de-DE", "en")),
        (("de_AT", "de-DE", "en"), "de", ("de", "en"), ("de_AT", "en")),
        (("en-US", "en-GB"), "", ("en", "en"), ("en-US", "en-GB")),
    ],
)
def test_languages(
    tmp_path: Path, codes: tuple[str, ...], root: str, asked: tuple[str, str], found: tuple[str, str]
) -> None:
    path = write(tmp_path, body(concept(**{code: f"a term in {code}" for code in codes}), root))
    entry = read_tbx(path, *asked).entries[0]
    assert (entry.source, entry.targets) == (f"a term in {found[0]}", (f"a term in {found[1]}",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: not well-formed XML"),
        ("<tbx>\n<text>\n</tbx>", "line 3: not well-formed XML"),
        ("no XML", "line 1: not well-formed XML"),
        ("<tmx/>", "line 1: the file begins with <tmx>, which is not TBX"),
        ("<tbx/>", "line 1: which languages[?] The file holds none"),
        (body(concept(de="Hof", en="yard", fr="cour")), "line 1: which languages[?] The file holds de, en, fr"),
        (body(concept(de="Hof")), "which languages[?] The file holds de"),
        (body(concept(de="Hof"), "en"), "no concept with terms in both en and de"),
        (body(concept(de="Hof") + concept(en="yard")), "no concept with terms in both de and en; it holds: de, en"),
        (body(concept(de="Hof", en=" ")), "line 2: the term on line 2 is empty"),
        (body("<conceptEntry><langSec/></conceptEntry>"), "line 2: <langSec> without xml:lang"),
        (body('<conceptEntry><langSec xml:lang="de"><termSec/></langSec></conceptEntry>'), "holds no <term>"),
        (
            body(
                concept(de="Hof", en="yard").replace(
                    "<langSec", '<admin type="x-termweave-policy">may</admin><langSec', 1
                )
            ),
            "line 2: unknown policy 'may'",
        ),
        (body("<p>" * 100 + "</p>" * 100), "nested more than 64 deep"),
        ('<?xml version="1.0" encoding="klingon"?><tbx/>', "line 1: "),
        ("<tbx>&what;</tbx>", "not well-formed XML"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_tbx(write(tmp_path, text))
    assert "terms.tbx" in str(caught.value)


def test_entities_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("do not read")
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    for declarations in (
        f'<!ENTITY l0 "ha">{laughs}',
        f'<!ENTITY l11 SYSTEM "{secret.as_uri()}">',
        f'<!ENTITY % l11 SYSTEM "{secret.as_uri()}"> %l11;',
        '<!ENTITY l11 "' + "x" * 100_000 + '">',
    ):
        text = f"<!DOCTYPE tbx [{declarations}]>\n" + body(concept(de="Hof", en="&l11;"))
        with pytest.raises(DataError, match="line 1: the file declares XML entities, which are not read for safety"):
            read_tbx(write(tmp_path, text))
    text = f'<!DOCTYPE tbx SYSTEM "{secret.as_uri()}">\n' + body(concept(de="Hof", en="&l11;"))
    with pytest.raises(DataError, match="undefined entity"):
        read_tbx(write(tmp_path, text))


def test_faults_are_gathered(tmp_path: Path) -> None:
    path = write(tmp_path, body(concept(de="Hof", en="yard") + "\n" + concept(de="Tor", en="")))
    faults: list[tuple[int, str]] = []
    assert len(read_tbx(path, faults=faults)) == 1
    assert faults == [(3, "the term on line 3 is empty; write its text or remove it")]


@pytest.mark.parametrize(
    ("entries", "languages", "message"),
    [
        ((GlossaryEntry("a", ("b",)),), ("", "en"), "needs the code of the source language, and none is known"),
        ((GlossaryEntry("a", ("b",)),), ("de", "e n"), "target language, and 'e n' is no such code"),
        ((GlossaryEntry("a", ("b",)),), ("de", "DE"), "source and target are both 'de'"),
        ((GlossaryEntry("a", ("b\x01",), line=7),), ("de", "en"), r"line 7 .* U\+0001, which XML cannot hold"),
        ((GlossaryEntry("a", ("b",), note="\ufffe"),), ("de", "en"), r"entry 1 holds the control character U\+FFFE"),
    ],
)
def test_what_cannot_be_written(
    tmp_path: Path, entries: tuple[GlossaryEntry, ...], languages: tuple[str, str], message: str
) -> None:
    path = tmp_path / "out.tbx"
    with pytest.raises(DataError, match=message):
        write_tbx(Glossary(entries, *languages), path)
    assert not path.exists()
