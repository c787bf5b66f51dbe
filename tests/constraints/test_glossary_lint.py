"""What lint finds, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.constraints.glossary_lint import lint_file, lint_glossary

Row = tuple[str, str] | tuple[str, str, str] | tuple[str, str, str, str]


def findings(*rows: Row, languages: str = "en-de") -> list[tuple[int, str, str]]:
    entries = [
        GlossaryEntry(source, tuple(filter(None, target.split("|"))), *rest)  # type: ignore[arg-type]
        for source, target, *rest in rows
    ]
    return [(own.line, own.severity, own.code) for own in lint_glossary(Glossary.of(entries, languages))]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("house", "Haus"), ("yard", "Hof")], []),
        # the same source
        ([("house", "Haus"), ("house", "Haus")], [(2, "warning", "duplicate")]),
        ([("house", "Haus"), ("house ", "Haus|Heim")], [(2, "warning", "duplicate"), (2, "warning", "outer-space")]),
        ([("Linux", "", "keep"), ("Linux", "", "keep")], [(2, "warning", "duplicate")]),
        ([("house", "Haus"), ("house", "Heim")], [(2, "warning", "different-targets")]),
        ([("house", "Haus"), ("House", "Heim")], [(2, "note", "case-variant")]),
        ([("house", "Haus"), ("House", "Haus")], []),
        ([("Linux", "", "keep"), ("Linux", "Linuks")], [(2, "error", "conflict")]),
        ([("house", "Haus"), ("house", "Haus", "prefer")], [(2, "warning", "mixed-policies")]),
        # wanted and forbidden
        ([("house", "Haus"), ("house", "Heim", "forbid")], []),
        ([("house", "Haus"), ("house", "haus", "forbid")], [(1, "error", "conflict")]),
        ([("house", "Haus"), ("house", "haus", "forbid", "exact")], []),
        ([("house", "Haus"), ("house", "Haus", "forbid", "exact")], [(1, "error", "conflict")]),
        ([("house", "Haus"), ("yard", "Haus", "forbid")], []),
        ([("house", "altes Haus"), ("", "Haus", "forbid")], [(1, "error", "conflict")]),
        ([("house", "Hausboot"), ("", "Haus", "forbid")], []),
        ([("house", "altes Haus|Heim"), ("", "Haus", "forbid")], [(1, "warning", "forbidden-alternative")]),
        ([("Linux", "", "keep"), ("", "Linux", "forbid")], [(1, "error", "conflict")]),
        # one inside another, one across another
        (
            [("house", "Haus"), ("old house", "Altbau"), ("old house roof", "x")],
            [(1, "note", "nested"), (2, "note", "nested")],
        ),
        ([("open file", "x"), ("file name", "y")], [(1, "note", "overlap")]),
        (
            [("big red bus", "x"), ("red bus stop", "y"), ("bus lane", "z")],
            [(1, "note", "overlap")],
        ),
        # by itself
        ([("house", "house")], [(1, "warning", "equal")]),
        ([("house", "house", "forbid")], []),
        ([("the", "der")], [(1, "warning", "function-word")]),
        ([("?!", "!")], [(1, "warning", "no-word")]),
        ([("word " * 21 + "end", "Ende")], [(1, "warning", "long")]),
        ([("a\x01b", "c")], [(1, "error", "control-character")]),
        ([("old (house", "Haus|He\u200bim")], [(1, "warning", "invisible-character"), (1, "warning", "unbalanced")]),
    ],
)
def test_findings(rows: list[Row], expected: list[tuple[int, str, str]]) -> None:
    assert findings(*rows) == expected


def test_chinese_terms_are_compared_by_characters() -> None:
    rows = [("系统", "system"), ("操作系统", "operating system")]
    assert findings(*rows, languages="zh-en") == [(1, "note", "nested")]


def test_one_finding_an_entry_however_many_pairs() -> None:
    rows = [("file", "Datei"), *((f"file w{number}", f"x{number}") for number in range(50))]
    rows += [(f"v{number} file", f"y{number}") for number in range(50)]
    assert len(findings(*rows)) == 1 + 50  # nested once; each that ends in `file` overlaps those that begin so
    (nested, *_) = lint_glossary(Glossary.of([GlossaryEntry(source, (target,)) for source, target in rows], "en-de"))
    assert nested.message == "'file' is part of 100 longer terms, such as 'file w0' (line 2)"


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("source\ttarget\tpolicy\nhouse\tHaus\n\nyard\t\nhouse\tHaus\nroof\tDach\tmay\n")
    report = lint_file(path)
    assert [(own.line, own.code) for own in report.findings] == [(4, "no-entry"), (5, "duplicate"), (6, "no-entry")]
    assert report.summary() == f"{path}: 4 entries; 2 errors, 1 warning, 0 notes"
    assert report.lines()[1] == (
        f"{path}, line 5: warning: 'house' → 'Haus' stands on line 2 too; remove one [duplicate]"
    )
    assert report.lines(limit=1)[-1] == f"{path}: 1 more of [no-entry]"
    assert report.to_json()["errors"] == 2


texts = st.text(st.sampled_from('ab AB文é\u0301("\u200b'), min_size=1, max_size=8).filter(str.strip)


@given(
    st.lists(
        st.tuples(texts, texts, st.sampled_from(["must", "prefer", "forbid"]), st.sampled_from(["carry", "exact"])),
        max_size=8,
    )
)
def test_any_glossary(rows: list[tuple[str, str, str, str]]) -> None:
    for line, severity, _ in findings(*rows):
        assert 1 <= line <= len(rows)
        assert severity in ("error", "warning", "note")
