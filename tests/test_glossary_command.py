"""`termweave glossary`: from files to findings and to other files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from termweave.cli import main

Run = Callable[..., tuple[int, str, str]]
TABLE = "source\ttarget\tpolicy\nHof\tyard\t\nLinux\t\tkeep\n"


@pytest.fixture
def glossary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command as a shell would, in this process and in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["termweave", "glossary", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.parametrize("command", ["lint", "convert"])
def test_help_with_examples(glossary: Run, command: str) -> None:
    code, output, _ = glossary(command, "--help")
    assert code == 0
    assert f"termweave glossary {command}" in output.partition("Example")[2]


def test_lint_without_findings(glossary: Run) -> None:
    Path("a.tsv").write_text(TABLE)
    assert glossary("lint", "a.tsv") == (0, "a.tsv: 2 entries; 0 errors, 0 warnings, 0 notes\n", "")


def test_lint_with_warnings_only(glossary: Run) -> None:
    Path("a.csv").write_text("Hof,yard\nHof,court\nTor,Tor\n")
    code, output, _ = glossary("lint", "a.csv", "--from", "de", "--to", "en")
    assert code == 0
    assert output.splitlines() == [
        "a.csv, line 2: warning: 'Hof' is 'court' here and 'yard' on line 1; both will do and the first is preferred; "
        "if that is not meant, remove one [different-targets]",
        "a.csv, line 3: warning: the target of 'Tor' is the source itself; if it is not to be translated, use the "
        "policy `keep`; else mend the target [equal]",
        "a.csv: 3 entries; 0 errors, 2 warnings, 0 notes",
    ]


def test_lint_with_errors(glossary: Run) -> None:
    Path("a.tsv").write_text(TABLE + "\tYard\tforbid\n")
    code, output, _ = glossary("lint", "a.tsv", "--json")
    report = json.loads(output)
    assert code == 1
    assert (report["entries"], report["errors"], report["warnings"], report["notes"]) == (3, 1, 0, 0)
    assert report["findings"] == [
        {
            "severity": "error",
            "code": "conflict",
            "line": 2,
            "message": "'Hof' is to become what line 4 forbids",
            "remedy": "remove one of the two",
        }
    ]


def test_lint_limits_what_it_prints(glossary: Run) -> None:
    Path("a.tsv").write_text("".join(f"w{number}\tw{number}\n" for number in range(30)))
    assert len(glossary("lint", "a.tsv")[1].splitlines()) == 10 + 1 + 1
    assert len(glossary("lint", "a.tsv", "--limit", 0)[1].splitlines()) == 30 + 1


def test_lint_of_what_is_no_glossary(glossary: Run) -> None:
    assert glossary("lint", "absent.tsv") == (1, "", "termweave: absent.tsv: no such file\n")


@pytest.mark.parametrize("dialect", ["dca", "dct", "2008"])
def test_convert_there_and_back(glossary: Run, dialect: str) -> None:
    Path("a.tsv").write_text(TABLE)
    code, output, _ = glossary("convert", "a.tsv", "b.tbx", "--from", "de", "--to", "en", "--tbx", dialect)
    assert (code, output) == (0, "b.tbx: 2 entries\n")
    assert glossary("convert", "b.tbx", "c.csv")[0] == 0
    assert glossary("convert", "c.csv", "d.tsv")[0] == 0
    assert Path("d.tsv").read_text() == TABLE.replace("yard\t\n", "yard\tmust\n")


def test_convert_needs_languages_for_tbx(glossary: Run) -> None:
    Path("a.tsv").write_text(TABLE)
    code, _, errors = glossary("convert", "a.tsv", "b.tbx")
    assert code == 1
    assert "TBX needs the code of the source language" in errors
    assert not Path("b.tbx").exists()


def test_convert_merges_if_asked(glossary: Run) -> None:
    Path("a.csv").write_text("Hof,yard\nTor,gate\nHof,court\n")
    assert glossary("convert", "a.csv", "b.csv", "--merge")[1] == "b.csv: 2 entries\n"
    assert Path("b.csv").read_text() == "source,target,target\nHof,yard,court\nTor,gate,\n"


def test_convert_says_what_it_passes_over(glossary: Run) -> None:
    sides = {
        code: f'<langSec xml:lang="{code}"><termSec><term>{code}</term></termSec></langSec>'
        for code in ("de", "en", "fr")
    }
    concepts = [sides["de"] + sides["en"], sides["de"] + sides["fr"], sides["fr"]]
    Path("a.tbx").write_text(f"<tbx>{''.join(f'<conceptEntry>{own}</conceptEntry>' for own in concepts)}</tbx>")
    code, output, errors = glossary("convert", "a.tbx", "b.tsv", "--from", "de", "--to", "en")
    assert (code, output) == (0, "b.tsv: 1 entry\n")
    assert "2 concepts without terms in both de and en were passed over" in errors


def test_the_documentation_shows_real_output(glossary: Run, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "glossaries.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (table,), (draft,), (code,) = ([text for name, text in blocks if name == kind] for kind in ("tsv", "csv", "python"))
    findings, converted, matches = (text for name, text in blocks if name == "text")
    Path("terms.tsv").write_text(table, encoding="utf-8")
    Path("draft.csv").write_text(draft, encoding="utf-8")
    commands = [text for name, text in blocks if not name]
    assert glossary(*commands[0].split()[2:])[1] == findings
    assert "".join(glossary(*line.split()[2:])[1] for line in commands[1].splitlines()) == converted
    exec(compile(code, "docs/glossaries.md", "exec"), {})
    assert capsys.readouterr().out == matches
