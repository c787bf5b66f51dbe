"""The vocabulary of imported models: ids by SentencePiece itself, places by hand, and what cannot be spelled."""

from __future__ import annotations

import json
import pickle
import zipfile
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from marian_checkpoint import ENGLISH, GERMAN, make_table, train_pieces
from termweave.errors import CheckpointError, ConfigError
from termweave.text.marian_vocabulary import MarianVocabulary, Roles, load_vocabulary
from termweave.text.subwords import Subwords
from termweave.text.words import normalise

MODELS = train_pieces(GERMAN, 90), train_pieces(ENGLISH, 80)
TABLE = make_table(MODELS, ["fra"])


def build(**changes: object) -> MarianVocabulary:
    last = len(TABLE) - 1
    roles = {"pad": last, "bos": last, "eos": 0, "source": ("de",), "target": ("en",), "tags": {}}
    return MarianVocabulary.build(*MODELS, TABLE, Roles(**{**roles, **changes}))  # type: ignore[arg-type]


VOCABULARY = build()
texts = st.text(alphabet=[*"der alte Müllerthouse (12.)½²…ﬁÀñ日㈱´\u200d\u0301", " "], max_size=40).map(normalise)


def test_ids_are_those_of_the_table():
    for encoder, model in zip((VOCABULARY.source, VOCABULARY.target), MODELS, strict=True):
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        for text in ("der alte Müller verkauft Mehl", "the old miller sells flour"):
            pieces = processor.encode(text, out_type=str)
            assert encoder.encode(text) == [TABLE.get(piece, TABLE["<unk>"]) for piece in pieces]
    assert VOCABULARY.decode(VOCABULARY.target.encode("the old miller")) == "the old miller"
    assert VOCABULARY.source.encode("the old miller") != VOCABULARY.target.encode("the old miller")


def test_what_is_no_text_is_not_decoded():
    ids = [VOCABULARY.bos, *VOCABULARY.target.encode("a child"), VOCABULARY.unk, TABLE[">>fra<<"], VOCABULARY.eos]
    assert VOCABULARY.decode(ids) == "a child"


@given(st.lists(texts, max_size=4))
def test_batches_and_single_texts_agree(rows):
    def known(row: list[int]) -> list[int]:
        return [index for index in row if index != VOCABULARY.unk]  # a mark alone may be nothing, or a word

    batch = VOCABULARY.source.encode_batch(rows)
    assert [known(row) for row in batch] == [known(VOCABULARY.source.encode(text)) for text in rows]


@given(texts.filter(bool))
def test_tokens_cover_the_text(text):
    ids = np.array(VOCABULARY.source.encode_batch([text])[0])
    lengths = VOCABULARY.source.token_bytes([text], ids)
    assert len(lengths) == len(ids)
    assert lengths.sum() == len(f" {text}".encode())
    assert (lengths >= 0).all()


def test_places_by_hand():
    """A character that became several belongs to the first token that has a part of it, wherever pieces end."""
    encoder = VOCABULARY.source
    processor = sentencepiece.SentencePieceProcessor(model_proto=MODELS[0])
    for text, written, of_each_character in (
        ("Müller", "▁Müller", [1, 1, 2, 1, 1, 1, 1]),
        ("½", "▁1⁄2", [1, 2, 0, 0]),
        ("日本12", "▁日本12", [1, 3, 3, 1, 1]),
        ("x´y", "▁x▁\u0301y", [1, 1, 2, 0, 1]),
        ("½ Müller", "▁1⁄2▁Müller", [1, 2, 0, 0, 1, 1, 2, 1, 1, 1, 1]),
    ):
        pieces = processor.encode(text, out_type=str)
        assert "".join(pieces) == written
        rest = iter(of_each_character)
        lengths = [sum(islice(rest, len(piece))) for piece in pieces]
        assert encoder.token_bytes([text], np.array(encoder.encode(text))).tolist() == lengths


@given(texts)
def test_what_can_be_spelled_comes_back(text):
    encoder = VOCABULARY.target
    ids = encoder.encode(text)
    assert (encoder.closest(text) == text) == (VOCABULARY.unk not in ids and VOCABULARY.decode(ids) == text)


def test_what_cannot_be_spelled_is_told():
    closest = VOCABULARY.target.closest
    assert closest("the house") == "the house"
    assert closest("the ﬁlm") == "the film"
    assert closest("the ñandu") == "the ⁇andu"


def test_words_on_both_sides_of_the_unknown_grow_together():
    unk = VOCABULARY.unk
    assert VOCABULARY.ends_inside_word[unk] and VOCABULARY.begins_inside_word[unk]
    assert not VOCABULARY.ends_inside_word[VOCABULARY.eos]
    assert VOCABULARY.piece(VOCABULARY.lone_space) == "▁"


def test_round_trip_as_one_file_that_is_always_the_same(tmp_path: Path):
    VOCABULARY.save(tmp_path / "tokenizer.model")
    again = load_vocabulary(tmp_path / "tokenizer.model")
    assert again.model == VOCABULARY.model == build().model == pickle.loads(pickle.dumps(again)).model
    assert again.target.encode("the house") == VOCABULARY.target.encode("the house")
    assert (again.pad, again.bos, again.eos, again.unk) == (len(TABLE) - 1, len(TABLE) - 1, 0, 1)
    with zipfile.ZipFile(tmp_path / "tokenizer.model") as archive:
        assert archive.read("source.spm") == MODELS[0]
        assert json.loads(archive.read("vocab.json")) == list(TABLE)


def test_damaged_files_are_named(tmp_path: Path):
    path = tmp_path / "tokenizer.model"
    for content in (VOCABULARY.model[: len(VOCABULARY.model) // 2], b"PK\x03\x04", b""):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"tokenizer\.model"):
            load_vocabulary(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("vocab.json", "[" + " " * 1000 + "]")
    with pytest.raises(CheckpointError, match="compressed"):
        load_vocabulary(path)


def test_a_vocabulary_of_our_own_is_told_apart(tmp_path: Path):
    Subwords.train(ENGLISH, tmp_path / "tokenizer.model", size=320)
    assert isinstance(load_vocabulary(tmp_path / "tokenizer.model"), Subwords)


def test_sides_have_their_languages():
    assert VOCABULARY.encoder("de") is VOCABULARY.source
    assert VOCABULARY.encoder("en") is VOCABULARY.target
    assert VOCABULARY.lead("de-en", ["de-en"]) is None
    for refused in (lambda: VOCABULARY.encoder("fr"), lambda: VOCABULARY.lead("en-de", ["en-de"])):
        with pytest.raises(ConfigError, match=r"is not for .*, but for de-en"):
            refused()


def test_a_tag_is_wanted_even_for_a_single_direction():
    tagged = build(target=("fr",), tags={"fr": ">>fra<<"})
    assert tagged.lead("de-fr", ["de-fr"]) == tagged.tag("fr") == TABLE[">>fra<<"]


def test_ids_with_gaps_are_refused():
    with pytest.raises(CheckpointError, match="the ids must be 0, 1, 2"):
        MarianVocabulary.build(*MODELS, {"</s>": 0, "<unk>": 2}, VOCABULARY.roles)


def test_vocabularies_of_bytes_are_refused(tmp_path: Path):
    Subwords.train(ENGLISH, tmp_path / "bytes.model", size=320)
    with pytest.raises(ValueError, match="in bytes"):
        MarianVocabulary.build(MODELS[0], (tmp_path / "bytes.model").read_bytes(), TABLE, VOCABULARY.roles)


def test_spellings_are_remembered_and_there_are_none_for_what_cannot_be_spelled() -> None:
    spellings = VOCABULARY.target.spellings
    assert spellings("the house")[0] == tuple(VOCABULARY.target.encode("the house"))
    assert spellings("the house") is spellings("the house")
    assert spellings("the ñandu") == ()
