"""Terms found in sentences, against tables of cases and a search that tries everything."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.constraints.constraint import Constraint
from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.constraints.matching import TermMatch, TermMatcher
from termweave.errors import ConfigError


def entries(text: str) -> list[GlossaryEntry]:
    """ "a=b|c; d=e" → entries."""
    pairs = (part.strip().partition("=") for part in text.split(";"))
    return [GlossaryEntry(source, tuple(targets.split("|"))) for source, _, targets in pairs]


def found(matcher: TermMatcher, sentence: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(sentence[match.start : match.end], match.targets) for match in matcher.find(sentence)]


@pytest.mark.parametrize(
    ("terms", "languages", "sentence", "expected"),
    [
        # whole words
        ("art=Kunst", "en-de", "the party, its art.", [("art", ("Kunst",))]),
        ("house=Haus", "en-de", "the house's roof", [("house", ("Haus",))]),
        ("C++=C++", "en-de", "use C++ (now)", [("C++", ("C++",))]),
        ("well-known=bekannt", "en-de", "a well-known fact", [("well-known", ("bekannt",))]),
        ("open file=Datei öffnen", "en-de", "to open  file", [("open  file", ("Datei öffnen",))]),
        # the longest wins, then the first
        ("a b=1; b c d=2; a=3", "en-de", "x a b c d", [("a", ("3",)), ("b c d", ("2",))]),
        ("a b=1; b c=2", "en-de", "x a b c", [("a b", ("1",))]),
        ("a b=1; b c=2; c d=3", "en-de", "x a b c d", [("a b", ("1",)), ("c d", ("3",))]),
        ("a=1", "en-de", "x a a", [("a", ("1",)), ("a", ("1",))]),
        # duplicates become alternatives
        ("bank=Bank; bank=Ufer", "en-de", "the bank", [("bank", ("Bank", "Ufer"))]),
        # letter case
        ("save as=speichern unter", "en-de", "or SAVE AS", [("SAVE AS", ("SPEICHERN UNTER",))]),
        ("polish=polieren; Polish=polnisch", "en-de", "the Polish way", [("Polish", ("polnisch",))]),
        ("polish=polieren; Polish=polnisch", "en-de", "to polish it", [("polish", ("polieren",))]),
        ("save=sichern|speichern", "en-de", "Save it", [("Save", ("Sichern", "Speichern", "sichern", "speichern"))]),
        ("save=sichern", "en-de", "“Save it”", [("Save", ("Sichern", "sichern"))]),
        ("save=sichern", "en-de", "no “Save” here", [("Save", ("Sichern",))]),
        # Unicode
        ("caf\u00e9=Café", "en-de", "a cafe\u0301 here", [("cafe\u0301", ("Café",))]),
        ("cafe\u0301=Cafe\u0301", "en-de", "a caf\u00e9 here", [("caf\u00e9", ("Caf\u00e9",))]),
        ("Straße=road", "de-en", "die STRASSE", [("STRASSE", ("ROAD",))]),
        ("file=Datei", "en-de", "the fi\u00adle\u200b x", [("fi\u00adle\u200b", ("Datei",))]),
        # without spaces
        ("系统=system; 操作系统=operating system", "zh-en", "新操作系统很好", [("操作系统", ("operating system",))]),
        ("Linux=Linux", "zh-en", "使用Linux系统", [("Linux", ("Linux",))]),
        ("人=person", "zh-en", "人工智能很好", []),
        ("人=person", "zh-en", "这里没有人。", [("人", ("person",))]),
        ("打开 文件=open file", "zh-en", "请打开文件", [("打开文件", ("open file",))]),
    ],
)
def test_find(terms: str, languages: str, sentence: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert found(TermMatcher(Glossary.of(entries(terms), languages)), sentence) == expected


@pytest.mark.parametrize(
    ("entry", "sentence", "expected"),
    [
        (GlossaryEntry("IT", ("EDV",), case="exact"), "use IT", [("IT", ("EDV",))]),
        (GlossaryEntry("IT", ("EDV",), case="exact"), "use it", []),
        (GlossaryEntry("phone", ("iPhone",), case="fixed"), "A PHONE", [("PHONE", ("iPhone",))]),
        (GlossaryEntry("Termweave", policy="keep"), "The TERMWEAVE tool", [("TERMWEAVE", ("TERMWEAVE",))]),
        (GlossaryEntry("bank", ("ufer",), "forbid"), "the bank", [("bank", ("ufer", "Ufer", "UFER"))]),
        (GlossaryEntry("bank", ("ufer",), "forbid", "fixed"), "the Bank", [("Bank", ("ufer",))]),
        (GlossaryEntry("", ("ufer",), "forbid"), "the bank", []),
    ],
)
def test_rules_of_an_entry(entry: GlossaryEntry, sentence: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert found(TermMatcher(Glossary.of([entry], "en-de")), sentence) == expected


def test_forbidden_everywhere() -> None:
    always = [GlossaryEntry("", ("alte Karre",), "forbid"), GlossaryEntry("", ("Kiste",), "forbid", "exact")]
    matcher = TermMatcher(Glossary.of(always, "en-de"))
    assert set(matcher.forbidden) == {"alte Karre", "Alte Karre", "alte karre", "ALTE KARRE", "Kiste"}


def test_forbid_goes_beside_other_policies_but_not_inside_a_longer_term() -> None:
    glossary = Glossary.of(
        [
            GlossaryEntry("bank", ("Bank",)),
            GlossaryEntry("bank", ("Ufer",), "forbid"),
            GlossaryEntry("river bank", ("Flussufer",)),
            GlossaryEntry("the bank account", ("Konto",), "forbid"),
        ],
        "en-de",
    )
    matcher = TermMatcher(glossary)

    def policies(sentence: str) -> list[tuple[str, str]]:
        return [(sentence[match.start : match.end], match.entry.policy) for match in matcher.find(sentence)]

    assert policies("a bank") == [("bank", "must"), ("bank", "forbid")]
    assert policies("a river bank") == [("river bank", "must")]
    assert policies("x the bank account") == [
        ("the bank account", "forbid"),
        ("bank", "must"),
        ("bank", "forbid"),
    ]


def test_inflection() -> None:
    glossary = Glossary.of(entries("window=Fenster; open window=offenes Fenster; opens windows=exakt"), "en-de")
    plain, stemmed = TermMatcher(glossary), TermMatcher(glossary, inflection=True)
    assert found(plain, "the windows") == []
    assert found(stemmed, "the windows") == [("windows", ("Fenster",))]
    assert found(stemmed, "an opened window") == [("opened window", ("offenes Fenster",))]
    assert found(stemmed, "it opens windows") == [("opens windows", ("exakt",))]
    with pytest.raises(ConfigError, match="no stemmer"):
        TermMatcher(Glossary((), "zh", "en"), inflection=True)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("open https://file.example/file now", ["https://file.example/file"]),
        ("the <b>file</b>", ["<b>", "file", "</b>"]),
        ("a {file} and a file", ["{file}", "file"]),
        ("copy %s files to it", ["%s files"]),
        ("it weighs 5 kg", ["5", "kg"]),
        ("it weighs 7 kg", ["kg"]),
        ("it weighs 7 km", ["7 km"]),
        ("file_name or /etc/file --file=file of a file", ["file_name", "/etc/file", "--file=file", "file"]),
    ],
)
def test_protection(sentence: str, expected: list[str]) -> None:
    matcher = TermMatcher(Glossary.of(entries("file=Datei; %s files=%s Dateien; kg=Kilo; 5=fünf"), "en-de"))
    assert [text for text, _ in found(matcher, sentence)] == expected


def test_a_term_that_is_a_whole_name_wins_over_it() -> None:
    matcher = TermMatcher(Glossary.of(entries("core.file=Kernabbild; file=Datei"), "en-de"))
    assert found(matcher, "core.file") == [("core.file", ("Kernabbild",))]
    assert found(matcher, "other.file") == [("other.file", ("other.file",))]


def test_protection_can_be_left_out() -> None:
    matcher = TermMatcher(Glossary.of(entries("file=Datei"), "en-de"), protect=False)
    assert [text for text, _ in found(matcher, "the {file} of 5 kg")] == ["file"]


def test_what_is_protected_is_a_keep_entry() -> None:
    (match,) = TermMatcher(Glossary((), "en", "de")).find("hello %s")
    assert match == TermMatch(GlossaryEntry("%s", policy="keep", case="exact", note="placeholder"), 6, 8, ("%s",))
    assert match.constraint("hello %s") == Constraint("%s", "%s")


def test_constraint() -> None:
    sentence = "the BANK"
    (match,) = TermMatcher(Glossary.of(entries("bank=Bank|Ufer"), "en-de")).find(sentence)
    assert match.constraint(sentence) == Constraint("BANK", "BANK", ("UFER",))


# Against a search that tries everything. Words are letters, so that a split at spaces is all there is to know.

words = st.sampled_from(["a", "b", "c", "A", "B", "é", "e\u0301"])
phrases = st.lists(words, min_size=1, max_size=3).map(" ".join)


def tried(glossary: list[GlossaryEntry], sentence: str) -> list[tuple[int, int, str]]:
    """(first word, one past the last, source) by the rules as they are written down, one span at a time."""

    def plain(text: str) -> str:
        return text.replace("e\u0301", "é").casefold()

    own = sentence.split(" ")
    spans = []
    for first in range(len(own)):
        for last in range(first + 1, len(own) + 1):
            text = " ".join(own[first:last])
            fitting = [entry for entry in glossary if plain(entry.source) == plain(text)]
            fitting = [
                entry
                for entry in fitting
                if entry.case != "exact" or entry.source.replace("e\u0301", "é") == text.replace("e\u0301", "é")
            ]
            if fitting:
                exact = [e for e in fitting if e.source.replace("e\u0301", "é") == text.replace("e\u0301", "é")]
                spans.append((first, last, (exact or fitting)[0].source.replace("e\u0301", "é")))
    chosen: list[tuple[int, int, str]] = []
    while spans:
        best = max(spans, key=lambda span: (span[1] - span[0], -span[0]))
        chosen.append(best)
        spans = [span for span in spans if span[1] <= best[0] or best[1] <= span[0]]
    return sorted(chosen)


@settings(deadline=None, max_examples=400)
@given(
    sources=st.lists(st.tuples(phrases, st.sampled_from(["carry", "exact", "fixed"])), max_size=8),
    sentence=st.lists(words, min_size=1, max_size=12).map(" ".join),
)
def test_against_trying_everything(sources: list[tuple[str, str]], sentence: str) -> None:
    glossary = [GlossaryEntry(source, ("t",), case=case) for source, case in sources]  # type: ignore[arg-type]
    matcher = TermMatcher(Glossary(tuple(glossary)), protect=False)
    expected = tried(glossary, sentence)
    results = []
    for match in matcher.find(sentence):
        first = sentence[: match.start].count(" ")
        last = sentence[: match.end].count(" ") + 1
        results.append((first, last, match.entry.source.replace("e\u0301", "é")))
    assert results == expected


@settings(deadline=None)
@given(st.text(st.sampled_from("ab é\u0301\u200b文%{}<>5 kmÄß\u00ad.@:/"), max_size=40))
def test_spans_are_in_the_sentence_and_apart(sentence: str) -> None:
    for language in ("en", "zh", ""):
        matcher = TermMatcher(Glossary(tuple(entries("a=1; a b=2; 文=3; é=4; ss=5")), language, "de"))
        end = 0
        for match in matcher.find(sentence):
            assert end <= match.start < match.end <= len(sentence)
            assert all(match.targets)
            end = match.end


def test_a_large_glossary_is_searched_as_exactly_as_a_small_one() -> None:
    """Terms that do not occur change nothing."""
    generator = random.Random(1)
    vocabulary = [f"w{number}x" for number in range(300)]
    many = {" ".join(generator.choices(vocabulary, k=generator.randint(1, 3))) for _ in range(5000)}
    sentence = " ".join(generator.choices(vocabulary, k=60))
    occurring = [source for source in sorted(many) if f" {source} " in f" {sentence} "]
    assert occurring
    small, large = (
        TermMatcher(Glossary(tuple(GlossaryEntry(source, ("t",)) for source in sources)))
        for sources in (occurring, sorted(many))
    )
    assert small.find(sentence) == large.find(sentence)
