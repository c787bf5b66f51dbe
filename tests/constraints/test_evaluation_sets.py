"""Evaluation sets: the file format, and how constraints are drawn for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from termweave.constraints.constraint import Constraint
from termweave.constraints.evaluation_sets import (
    ConstrainedSentence,
    ConstraintSetOptions,
    LinkedSentence,
    build_constraint_set,
    link_text,
    link_tokenised,
    make_constraint_set,
    read_constraint_set,
    write_constraint_set,
)
from termweave.errors import DataError
from termweave.evaluation.csr import success_rate

OPTIONS = ConstraintSetOptions("de", "en", seed=5)

GERMAN = [
    "Der alte Lehrer hat gestern ein großes Haus gekauft .",
    "Das Kind liest ( leise ) ein Buch .",
    "Ja !",
    "Europas Ziele sind klar .",
]
ENGLISH = [
    "Yesterday the old teacher bought a large house .",
    "The child reads a book ( quietly ) .",
    "Yes !",
    "Europe 's aims are clear .",
]
LINKS = [
    [(0, 1), (1, 2), (2, 3), (3, 4), (8, 4), (4, 0), (5, 5), (6, 6), (7, 7), (9, 8)],
    [(0, 0), (1, 1), (2, 2), (3, 5), (4, 6), (5, 7), (6, 3), (7, 4), (8, 8)],
    [(0, 0), (1, 1)],
    [(0, 0), (0, 1), (1, 2), (2, 3), (3, 4), (4, 5)],
]


def linked(copies: int = 1) -> list[LinkedSentence]:
    return link_tokenised(GERMAN * copies, ENGLISH * copies, LINKS * copies, OPTIONS)


@pytest.mark.parametrize("depth", [500, 900, 980, 2000, 200_000])
def test_brackets_nested_too_deeply(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('{"source": "", "target": "", "constraints": []}\n' + "[" * depth + "]" * depth + "\n")
    with pytest.raises(DataError, match=r"set\.jsonl, line 2"):
        read_constraint_set(path)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('{"source": "a", "target": "b", "constraints": []}\n', encoding="utf-8-sig")
    assert read_constraint_set(path) == [ConstrainedSentence("a", "b")]


def test_round_trip_keeps_everything(tmp_path: Path) -> None:
    twice = Constraint("Haus", 'house\u2028"C++"')
    sentences = [
        ConstrainedSentence("ä 中\u2028", "b", (twice, twice)),
        ConstrainedSentence("", "", ()),
        ConstrainedSentence("", "", ()),
    ]
    path = tmp_path / "folder" / "set.jsonl"
    write_constraint_set(path, sentences)
    assert read_constraint_set(path) == sentences
    assert [entry.name for entry in path.parent.iterdir()] == ["set.jsonl"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is not valid JSON"),
        ("", "line 2 is not valid JSON"),
        ("[]", "line 2: expected an object"),
        ('{"source": "a", "target": "b"}', "line 2: the key 'constraints' is missing"),
        ('{"source": "a", "target": 1, "constraints": []}', "line 2: 'target' must be text, got 1"),
        ('{"source": "a", "target": "b", "constraints": {}}', "line 2: 'constraints' must be a list"),
        ('{"source": "a", "target": "b", "constraints": [], "id": 3}', "line 2: unknown key 'id'"),
        ('{"source": "a", "target": "b", "constraints": ["x"]}', "line 2, constraint 1: expected an object"),
        (
            '{"source": "a", "target": "b", "constraints": [{"source": "x", "traget": "y"}]}',
            "line 2, constraint 1: unknown key 'traget'",
        ),
        (
            '{"source": "a", "target": "b", "constraints": [{"source": "x", "target": " "}]}',
            "line 2: a constraint needs text on both sides",
        ),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "set.jsonl"
    good = '{"source": "a", "target": "b", "constraints": []}'
    path.write_text(f"{good}\n{line}\n{good}\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_constraint_set(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_file_and_wrong_encoding(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_constraint_set(tmp_path / "none.jsonl")
    (tmp_path / "latin.jsonl").write_bytes('{"source": "\xe4"}'.encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        read_constraint_set(tmp_path / "latin.jsonl")


def test_tokenised_text_becomes_natural() -> None:
    sentences = build_constraint_set(linked(), OPTIONS)
    assert [sentence.source for sentence in sentences][1] == "Das Kind liest (leise) ein Buch."
    assert [sentence.target for sentence in sentences][3] == "Europe's aims are clear."


def test_constraints_are_phrase_pairs_of_the_sentence() -> None:
    pairs = {
        (item.source, item.target)
        for sentence in build_constraint_set(linked(200), OPTIONS)
        for item in sentence.constraints
    }
    assert {("Haus", "house"), ("großes Haus", "large house"), ("ein großes Haus", "a large house")} <= pairs
    assert ("alte Lehrer", "old teacher") in pairs
    assert ("gekauft", "bought") not in pairs  # "hat" is linked to "bought" as well
    assert ("leise", "quietly") in pairs
    assert not any("(" in source or "." in target for source, target in pairs)  # no punctuation
    assert not any(source in {"Der", "ein", "Ja", "!"} for source, _ in pairs)  # stop words alone
    assert ("Europas", "Europe's") not in pairs  # one word against two


def test_the_reference_meets_every_constraint() -> None:
    for options in (OPTIONS, ConstraintSetOptions("de", "en", seed=5, code_switch=0.5)):
        sentences = build_constraint_set(linked(50), options)
        rate = success_rate(
            [sentence.target for sentence in sentences], [sentence.constraints for sentence in sentences], "en"
        )
        assert rate.total > 100
        assert rate.met == rate.total


def test_hard_leaves_out_what_the_plain_model_says_anyway() -> None:
    outputs = ["The large house was bought by an old teachers yesterday.", "", "Yes!", "Europe's aims are clear."] * 100
    sentences = build_constraint_set(linked(100), OPTIONS, hard_against=outputs)
    assert len(sentences) == 400  # every sentence stays
    targets = {item.target for sentence in sentences[::4] for item in sentence.constraints}
    assert targets
    assert "teacher" in targets  # only "teachers" is there
    assert "a large house" in targets
    assert not {"house", "large", "large house", "old"} & targets
    assert not any(sentence.constraints for sentence in sentences[3::4])
    assert {item.target for sentence in sentences[1::4] for item in sentence.constraints} >= {"book", "quietly"}


def test_hard_against_the_reference_is_empty() -> None:
    natural = [sentence.target for sentence in linked()]
    assert not any(s.constraints for s in build_constraint_set(linked(), OPTIONS, hard_against=natural))


def test_code_switched_sets() -> None:
    always = ConstraintSetOptions("de", "en", seed=5, code_switch=1.0)
    plain, switched = build_constraint_set(linked(), OPTIONS), build_constraint_set(linked(), always)
    for before, after in zip(plain, switched, strict=True):
        assert [item.source for item in before.constraints] == [item.source for item in after.constraints]
        assert all(item.source == item.target and item.source in after.target for item in after.constraints)
        assert after.source == before.source
    half = build_constraint_set(linked(100), ConstraintSetOptions("de", "en", seed=5, code_switch=0.5))
    flags = [item.source == item.target for sentence in half for item in sentence.constraints]
    assert 0.4 < sum(flags) / len(flags) < 0.6


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    contents = []
    for name, seed in (("one", 5), ("two", 5), ("three", 6)):
        options = ConstraintSetOptions("de", "en", seed=seed, code_switch=0.5)
        path = tmp_path / name
        summary = make_constraint_set(path, GERMAN * 5, ENGLISH * 5, LINKS * 5, options, tokenised=True)
        assert summary.sentences == 20
        assert 0 < summary.constrained_sentences < 20  # "Ja!" has none
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_natural_text() -> None:
    source, target = ["Das  alte Haus, heute."], ["The old house, today."]
    links = [[(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]]
    sentences = link_text(source * 50, target * 50, links * 50, OPTIONS)
    assert sentences[0].source == "Das alte Haus, heute."
    pairs = {(c.source, c.target) for s in build_constraint_set(sentences, OPTIONS) for c in s.constraints}
    assert {("Haus", "house"), ("alte Haus", "old house"), ("Das alte Haus", "The old house")} <= pairs


def test_chinese() -> None:
    options = ConstraintSetOptions("zh", "en")
    sentences = link_tokenised(["我们 学习 机器 翻译 。"] * 50, ["we study machine translation ."] * 50,
                               [[(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]] * 50, options)  # fmt: skip
    built = build_constraint_set(sentences, options)
    assert built[0].source == "我们学习机器翻译。"
    pairs = {(c.source, c.target) for s in built for c in s.constraints}
    assert {("机器", "machine"), ("机器翻译", "machine translation")} <= pairs


def test_tokens_that_are_no_words_are_not_cut() -> None:
    # The gold token "ca" of "ca n't" is not a word of "can't"; a constraint on it could never be met.
    sentences = link_tokenised(["kann nicht"] * 20, ["ca n't"] * 20, [[(0, 0), (1, 1)]] * 20, OPTIONS)
    assert sentences[0].target == "can't"
    targets = {c.target for s in build_constraint_set(sentences, OPTIONS) for c in s.constraints}
    assert targets <= {"can't"}


def test_wrong_input() -> None:
    with pytest.raises(DataError, match="source has 2, target has 1, links has 1"):
        link_tokenised(["a", "b"], ["a"], [[]], OPTIONS)
    with pytest.raises(DataError, match=r"sentence 1: the link 0-7 points outside its 1 source and 1 target"):
        build_constraint_set(link_tokenised(["Haus"], ["house"], [[(0, 7)]], OPTIONS), OPTIONS)
    with pytest.raises(DataError, match="test_set has 4, model_output has 1"):
        build_constraint_set(linked(), OPTIONS, hard_against=["one"])
    with pytest.raises(DataError, match="line 1: a token is made of invisible"):
        link_tokenised(["a \u200b"], ["a"], [[]], OPTIONS)
    assert build_constraint_set([], OPTIONS) == []


def test_alternatives_are_written_and_read(tmp_path):
    house = Constraint("Haus", "house", ("building", "home"))
    rows = [ConstrainedSentence("das Haus", "the house", (house, Constraint("das", "the")))]
    write_constraint_set(tmp_path / "set.jsonl", rows)
    assert read_constraint_set(tmp_path / "set.jsonl") == rows
    (tmp_path / "set.jsonl").write_text(
        '{"source": "a", "target": "b", "constraints": [{"source": "a", "target": "b", "alternatives": [3]}]}\n'
    )
    with pytest.raises(DataError, match="must be text, got 3"):
        read_constraint_set(tmp_path / "set.jsonl")
