"""Every format holds every glossary, and no file, however broken, brings anything but our own errors."""

from __future__ import annotations

import contextlib
import dataclasses
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termweave.constraints.glossary import CASE_RULES, POLICIES, Glossary, GlossaryEntry
from termweave.constraints.glossary_files import read_glossary, write_glossary
from termweave.errors import DataError, TermweaveError

DIALECTS = ("dca", "dct", "2008")
quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)

# All that XML can hold, odd white space, quotes and separators far more often than chance would have them.
characters = st.one_of(
    st.sampled_from(" \t\n\r\"',;|\\<>&]%=\u00a0\u2028\ufeff\u200b\u0301ßéЖ文"),
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"),
)
texts = st.text(characters, min_size=1, max_size=12).filter(str.strip)


@st.composite
def entries(draw: st.DrawFn) -> GlossaryEntry:
    policy = draw(st.sampled_from(POLICIES))
    source = draw(texts) if policy != "forbid" or draw(st.booleans()) else ""
    targets = () if policy == "keep" else tuple(draw(st.lists(texts, min_size=1, max_size=3)))
    return GlossaryEntry(source, targets, policy, draw(st.sampled_from(CASE_RULES)), draw(st.text(characters)))


glossaries = st.lists(entries(), min_size=1, max_size=6).map(lambda own: Glossary(tuple(own), "de", "en-GB"))


@quick
@given(glossary=glossaries, dialects=st.permutations(DIALECTS))
def test_nothing_is_lost_between_formats(tmp_path: Path, glossary: Glossary, dialects: list[str]) -> None:
    """TSV → TBX → CSV → TBX → TSV → TBX → CSV → TSV, in every dialect."""
    names = ["a.tsv", "b.tbx", "c.csv", "d.tbx", "e.tsv", "f.tbx", "g.csv", "h.tsv"]
    chosen = iter(dialects)
    write_glossary(glossary, tmp_path / names[0])
    for before, after in pairwise(names):
        read = read_glossary(tmp_path / before, "de", "en-GB")
        assert read == glossary
        write_glossary(read, tmp_path / after, next(chosen) if after.endswith("tbx") else "dca")  # type: ignore[arg-type]
    assert (tmp_path / names[0]).read_bytes() == (tmp_path / names[-1]).read_bytes()


@quick
@given(glossary=glossaries, dialect=st.sampled_from(DIALECTS))
def test_tbx_knows_its_languages(tmp_path: Path, glossary: Glossary, dialect: str) -> None:
    write_glossary(glossary, tmp_path / "a.tbx", dialect)  # type: ignore[arg-type]
    assert read_glossary(tmp_path / "a.tbx") == glossary


@quick
@given(glossary=glossaries)
def test_merging_is_idempotent_and_keeps_every_pair(glossary: Glossary) -> None:
    merged = glossary.merged()
    assert merged.merged() == merged

    def pairs(own: Glossary) -> set[tuple[str, str, str, str]]:
        from termweave.text.words import normalise

        return {
            (normalise(entry.source), normalise(target), entry.policy, entry.case)
            for entry in own.entries
            for target in entry.targets or ("",)
        }

    assert pairs(merged) == pairs(glossary)


SAMPLE = Glossary.of(
    [
        GlossaryEntry("der alte Hof", ("the old yard", "court"), "prefer", "exact", 'say "yard", not\nfarm', line=1),
        GlossaryEntry("Linux", policy="keep"),
        GlossaryEntry("", ("dude",), "forbid"),
        GlossaryEntry("Straße", ("road",), case="fixed"),
    ],
    "de-en",
)
KINDS = [("a.tsv", "dca"), ("a.csv", "dca"), *product(["a.tbx"], DIALECTS)]


def survives(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    faults: list[tuple[int, str]] = []
    for languages in (("", ""), ("de", "en")):
        try:
            read_glossary(path, *languages)
        except TermweaveError as error:
            assert path.name in str(error)
        with contextlib.suppress(TermweaveError):
            read_glossary(path, *languages, faults)


@settings(quick, max_examples=200)
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace"))))
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.tbx"])
def test_any_bytes(tmp_path: Path, name: str, data: bytes) -> None:
    survives(tmp_path / name, data)


@settings(quick, max_examples=200)
@given(data=st.data())
@pytest.mark.parametrize(("name", "dialect"), KINDS)
def test_damaged_files(tmp_path: Path, name: str, dialect: str, data: st.DataObject) -> None:
    """Parts of a good file cut out, doubled, or overwritten."""
    path = tmp_path / name
    write_glossary(SAMPLE, path, dialect)  # type: ignore[arg-type]
    content = path.read_bytes()
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = min(len(content), start + data.draw(st.integers(0, 40)))
        pieces = [b"", content[start:end] * 2, data.draw(st.binary(max_size=8))]
        pieces += [
            b'"',
            b"\t",
            b"\n",
            b"\xff",
            b"\0",
            b"&amp;",
            b"<",
            b"</termSec>",
            b"<tbx>",
            b"]]>",
            b"<!ENTITY a 'b'>",
        ]
        content = content[:start] + data.draw(st.sampled_from(pieces)) + content[end:]
    survives(path, content)


elements = st.recursive(
    st.text("a &lt;\n", max_size=4),
    lambda inner: st.builds(
        lambda name, attribute, parts: f"<{name}{attribute}>{''.join(parts)}</{name}>",
        st.sampled_from(
            ["conceptEntry", "termEntry", "langSec", "langSet", "termSec", "ntig", "term", "note", "admin"]
        ),
        st.sampled_from(["", ' xml:lang="de"', ' xml:lang="en"', ' xml:lang=""', ' type="x-termweave-policy"']),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(quick, max_examples=300)
@given(inner=st.lists(elements, max_size=4))
def test_any_elements(tmp_path: Path, inner: list[str]) -> None:
    survives(tmp_path / "a.tbx", f"<tbx xml:lang='de'>{''.join(inner)}</tbx>".encode())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.tsv", "absent.tsv: no such file"),
        ("folder.csv", "folder.csv is a folder"),
        ("terms.xlsx", "a glossary is a .tsv, .csv or .tbx file"),
        ("terms", "a glossary is a .tsv, .csv or .tbx file"),
    ],
)
def test_no_such_glossary(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=message):
        read_glossary(tmp_path / name)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.tbx"
    write_glossary(SAMPLE, path)
    before = path.read_bytes()
    broken = dataclasses.replace(SAMPLE, entries=(*SAMPLE.entries, GlossaryEntry("a", ("\x02",))))
    with pytest.raises(DataError):
        write_glossary(broken, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.tbx"]
