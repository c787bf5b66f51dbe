"""Letter case carried over to targets."""

from __future__ import annotations

import pytest

from termweave.constraints.letter_case import all_forms, capitalised, carried, carried_forms, pattern


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("save as", "lower"),
        ("Save as", "title"),
        ("Save As", "title"),
        ("SAVE AS", "upper"),
        ("A", "title"),
        ("iPhone", "other"),
        ("save As", "other"),
        ("McDonald", "other"),
        ("PDF file", "other"),
        ("USB 3", "upper"),
        ("42", "lower"),
        ("", "lower"),
        ("系统", "lower"),
        ("Éclair", "title"),
        ("ÉCLAIR", "upper"),
        ("(Save)", "other"),
    ],
)
def test_pattern(text: str, expected: str) -> None:
    assert pattern(text) == expected


@pytest.mark.parametrize(
    ("target", "entry", "written", "language", "expected"),
    [
        ("house", "Haus", "Haus", "en", "house"),
        ("house", "Haus", "HAUS", "en", "HOUSE"),
        ("Datei", "file", "File", "de", "Datei"),
        ("speichern unter", "save as", "Save As", "de", "Speichern unter"),
        ("speichern unter", "save as", "SAVE AS", "de", "SPEICHERN UNTER"),
        ("Straße", "road", "ROAD", "de", "STRASSE"),
        ("Save", "Speichern", "speichern", "en", "save"),
        ("Datei", "File", "file", "de", "Datei"),
        ("PDF file", "Document", "document", "en", "PDF file"),
        ("FERTIG", "DONE", "Done", "de", "Fertig"),
        ("FERTIG", "DONE", "done", "de", "Fertig"),
        ("DONE", "FERTIG", "fertig", "en", "done"),
        ("USB-Gerät", "USB", "usb", "de", "USB-Gerät"),
        ("iPhone", "iphone", "iPhone", "en", "iPhone"),
        ("ready", "fertig", "feRtig", "en", "ready"),
        ("“open”", "offen", "Offen", "en", "“Open”"),
        ("系统", "system", "SYSTEM", "zh", "系统"),
    ],
)
def test_carried(target: str, entry: str, written: str, language: str, expected: str) -> None:
    assert carried(target, entry, written, language) == expected


@pytest.mark.parametrize(
    ("entry", "written", "begins", "languages", "forms"),
    [
        ("save", "Save", True, ("en", "fr"), ("Enregistrer", "enregistrer")),
        ("save", "Save", False, ("en", "fr"), ("Enregistrer",)),
        ("save", "save", True, ("en", "fr"), ("enregistrer",)),
        ("Hof", "Hof", True, ("de", "fr"), ("enregistrer", "Enregistrer")),
        ("Hof", "Hof", False, ("de", "fr"), ("enregistrer",)),
        ("hof", "Hof", False, ("de", "fr"), ("enregistrer",)),
        ("hof", "Hof", True, ("de", "fr"), ("Enregistrer", "enregistrer")),
        ("hof", "HOF", True, ("de", "fr"), ("ENREGISTRER",)),
    ],
)
def test_forms(entry: str, written: str, begins: bool, languages: tuple[str, str], forms: tuple[str, ...]) -> None:
    source, target = languages
    found = carried_forms("enregistrer", entry, written, begins=begins, source_language=source, target_language=target)
    assert found == forms


def test_all_forms() -> None:
    assert set(all_forms("Old house")) == {"Old house", "old house", "OLD HOUSE"}
    assert set(all_forms("系统")) == {"系统"}


def test_capitalised() -> None:
    assert [capitalised(text) for text in ("haus", "„haus“", "ǆ", "", "?!", "3d")] == [
        "Haus",
        "„Haus“",
        "ǅ",
        "",
        "?!",
        "3d",
    ]
