"""The subword vocabulary: exact round trips, spans, tags, errors."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from termweave.errors import CheckpointError, ConfigError, DataError
from termweave.text.subwords import Subwords
from termweave.text.words import normalise

SENTENCES = [
    "The old miller sells flour in the village.",
    "Der alte Müller verkauft Mehl im Dorf.",
    "A red bicycle stands behind the house, number 12.",
    "Ein rotes Fahrrad steht hinter dem Haus Nummer 12.",
    "我们在村里买面粉。",
]


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Subwords:
    path = tmp_path_factory.mktemp("subwords") / "tokenizer.model"
    return Subwords.train(SENTENCES * 20, path, size=400, languages=["en", "de", "zh"], character_coverage=0.99)


def test_special_ids(subwords: Subwords) -> None:
    assert (subwords.pad, subwords.unk, subwords.bos, subwords.eos) == (0, 1, 2, 3)
    assert [subwords.tag(language) for language in ("de", "en", "zh")] == [4, 5, 6]
    assert subwords.tags == {"de": 4, "en": 5, "zh": 6}


def test_unknown_tag_names_the_known_ones(subwords: Subwords) -> None:
    with pytest.raises(ConfigError, match=r"no tag for 'fr'.*de, en, zh"):
        subwords.tag("fr")


@pytest.mark.parametrize("text", SENTENCES)
def test_round_trip_of_known_text(subwords: Subwords, text: str) -> None:
    assert subwords.decode(subwords.encode(text)) == text


@given(text=st.text())
def test_round_trip_of_any_text(subwords: Subwords, text: str) -> None:
    text = normalise(text)
    ids = subwords.encode(text)
    assert subwords.decode(ids) == text
    assert subwords.unk not in ids


@pytest.mark.parametrize(
    "text", ["<2en>", "</s>", "<0x41>", "<unk>", "<pad> x", "👩\u200d🔬 𠮷野", "\u2047", "naïve ﬁ １２", "a  b"]
)
def test_text_cannot_spell_special_pieces(subwords: Subwords, text: str) -> None:
    ids = subwords.encode(text)
    assert subwords.decode(ids) == text
    assert not set(ids) & {0, 1, 2, 3, 4, 5, 6}


def test_decode_skips_specials_and_survives_dangling_bytes(subwords: Subwords) -> None:
    ids = subwords.encode("The miller")
    assert subwords.decode([5, 2, *ids, 3, 0, 0]) == "The miller"
    emoji = subwords.encode("🔬")
    assert subwords.decode(emoji[:-1]).strip("\ufffd") == ""
    assert subwords.decode(np.array(ids)) == "The miller"
    assert subwords.decode([]) == ""


@given(ids=st.lists(st.integers(0, 399)))
def test_decode_never_fails(subwords: Subwords, ids: list[int]) -> None:
    assert isinstance(subwords.decode([index for index in ids if index < subwords.size]), str)


@given(text=st.one_of(st.text(), st.text(alphabet="ab éü我👩 ", max_size=30)))
def test_spans_tile_the_text(subwords: Subwords, text: str) -> None:
    text = normalise(text)
    ids = subwords.encode(text)
    spans = subwords.spans(text, ids)
    assert len(spans) == len(ids)
    end = 0
    for start, stop in spans:
        assert end <= start <= stop
        assert text[end:start] in ("", " ")
        end = stop
    assert end == len(text)


def test_spans_of_whole_pieces_spell_the_pieces(subwords: Subwords) -> None:
    text = "The old miller"
    ids = subwords.encode(text)
    pieces = [piece.replace("\u2581", "") for piece in subwords.pieces(ids)]
    assert [text[start:end] for start, end in subwords.spans(text, ids)] == pieces
    assert subwords.starts_word(ids).sum() == 3


def test_spans_refuse_foreign_ids(subwords: Subwords) -> None:
    with pytest.raises(ValueError, match="not the encoding"):
        subwords.spans("The old", subwords.encode("The"))


@given(texts=st.lists(st.one_of(st.text(), st.text(alphabet="abo ü我\u2581👩 ", max_size=60))))
def test_batch_equals_single_on_any_text(subwords: Subwords, texts: list[str]) -> None:
    texts = [text.encode(errors="ignore").decode() for text in texts]
    assert subwords.encode_batch(texts) == [subwords.encode(text) for text in texts]


def test_known_words_stay_bounded(subwords: Subwords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termweave.text.vocabulary.KnownWords.limit", 3)
    texts = [f"word{number} and the old miller" for number in range(9)]
    assert subwords.encode_batch(texts) == [subwords.encode(text) for text in texts]
    assert len(subwords._known_words) <= 3


def test_batch_equals_single(subwords: Subwords) -> None:
    assert subwords.encode_batch(SENTENCES) == [subwords.encode(text) for text in SENTENCES]
    rows = subwords.encode_batch(SENTENCES)
    assert subwords.decode_batch(rows) == SENTENCES


def test_pickle_and_save(subwords: Subwords, tmp_path: Path) -> None:
    subwords.save(tmp_path / "copy.model")
    for copy in (pickle.loads(pickle.dumps(subwords)), Subwords.load(tmp_path / "copy.model")):
        assert copy.encode(SENTENCES[0]) == subwords.encode(SENTENCES[0])


def test_small_text_gives_a_smaller_vocabulary(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    small = Subwords.train(["tiny text"] * 3, tmp_path / "small.model", size=5000, languages=["en"])
    assert 260 < small.size < 400
    assert small.decode(small.encode("tiny text")) == "tiny text"
    assert capfd.readouterr().err == ""


def test_training_is_repeatable(tmp_path: Path) -> None:
    for name in ("first", "second"):
        Subwords.train(SENTENCES, tmp_path / name, size=400, languages=["en"])
    first, second = Subwords.load(tmp_path / "first"), Subwords.load(tmp_path / "second")
    assert first.pieces(range(first.size)) == second.pieces(range(second.size))


def test_too_few_pieces_for_the_characters(tmp_path: Path) -> None:
    letters = [chr(0x4E00 + number) * 3 for number in range(300)]
    with pytest.raises(DataError, match=r"subwords.size: 300 pieces do not hold all characters.*takes more than 5"):
        Subwords.train(letters, tmp_path / "m", size=300, character_coverage=1.0)
    assert not list(tmp_path.iterdir())


def test_no_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no text"):
        Subwords.train([], tmp_path / "m", size=300)


def test_load_errors(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no subword model"):
        Subwords.load(tmp_path / "missing.model")
    (tmp_path / "bad.model").write_bytes(b"not a model")
    with pytest.raises(CheckpointError, match="not a SentencePiece model"):
        Subwords.load(tmp_path / "bad.model")


@pytest.mark.parametrize("broken", [[0xF0], [0x9F, 0x98], [0xF0, 0x9F, 0x98], [0xE2, 0x82, 0xE2]])
def test_bytes_that_are_no_character_spell_nothing(subwords: Subwords, broken: list[int]) -> None:
    byte = {code: subwords._processor.piece_to_id(f"<0x{code:02X}>") for code in range(256)}
    stray, smile = [byte[code] for code in broken], [byte[code] for code in "😀".encode()]
    assert subwords.decode([*subwords.encode("The house"), *stray, *subwords.encode("old")]) == "The house old"
    assert subwords.decode([*smile, *stray]) == "😀"
    assert subwords.decode([*subwords.encode("old 😀"), *stray, *smile]) == "old 😀😀"
    assert subwords.decode(subwords.encode("old \ufffd house")) == "old \ufffd house"  # that is a character


def test_a_phrase_is_known_by_the_pieces_it_shares_with_marks_around_it(tmp_path: Path) -> None:
    """Where quotes and signs are merged, the pieces of '%s' alone do not stand in '"%s"', nor those of '%1' in '%1.'"""
    lines = ['the file "%s" is not here', "die Datei »%s« fehlt", "see %1. then", "the (%1) file", "in „%1“ here"]
    vocabulary = Subwords.train(lines * 50, tmp_path / "tokenizer.model", size=400, languages=["en"])
    assert "▁»%" in vocabulary.pieces(vocabulary.encode("»%s«"))
    for phrase, around in (("%s", '"%s"'), ("%s", "»%s«"), ("%1", "%1."), ("%1", "(%1)"), ("%1", "„%1“")):
        whole = vocabulary.encode(f"file {around}")
        runs = {tuple(whole[start:end]) for start in range(len(whole)) for end in range(start + 1, len(whole) + 1)}
        assert runs.intersection(vocabulary.target.spellings(phrase)), around
    assert vocabulary.target.spellings("file")[0] == tuple(vocabulary.encode("file"))
    assert len(vocabulary.target.spellings("file")) == 2  # behind a space and behind a mark, as before
