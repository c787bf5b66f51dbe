"""The guarantee holds for imported models too: constraints stand in the text as whole words, or are refused before."""

from __future__ import annotations

from pathlib import Path

import pytest

from marian_checkpoint import ENGLISH, GERMAN, write_checkpoint
from termweave.constraints.constraint import Constraint
from termweave.constraints.occurrences import comparable, count_occurrences
from termweave.decoding.translator import Translator
from termweave.errors import ConstraintError
from termweave.model.marian import import_marian

SOURCES = GERMAN[:12:2]
PHRASES = ["the old miller", "house", "flour", "river", "(by the lake", "1980", "hers", "a", "in the vill"]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("marian")
    import_marian(write_checkpoint(folder), folder / "model", ["de-en"])
    return Translator.load(folder / "model", "cpu")


def count(text: str, phrase: str) -> int:
    return count_occurrences(comparable(text, "en"), comparable(phrase, "en"))


def test_every_constraint_stands_in_the_output(translator):
    wanted = [
        [Constraint("Haus", PHRASES[index % len(PHRASES)]), Constraint("Dorf", PHRASES[(index * 2 + 3) % len(PHRASES)])]
        for index in range(len(SOURCES))
    ]
    for result, constraints in zip(translator.translate(SOURCES, wanted), wanted, strict=True):
        for constraint in constraints:
            assert count(result.text, constraint.target) >= constraints.count(constraint)
        assert None not in result.spans


def test_forbidden_phrases_stand_in_no_output(translator):
    free = translator.translate(SOURCES)
    words = sorted({word for result in free for word in comparable(result.text, "en")})[:2]
    for result in translator.translate(SOURCES, forbidden=words):
        assert not any(count(result.text, word) for word in words)


@pytest.mark.parametrize(
    ("target", "closest"), [("ñandu", "⁇andu"), ("the ﬁve", "the five"), ("house 日本", "house ⁇")]
)
def test_what_the_vocabulary_cannot_spell_is_refused_before_decoding(translator, target, closest):
    with pytest.raises(ConstraintError, match=f"sentence 1: the vocabulary of this model cannot spell .*{closest!r}"):
        translator.translate(SOURCES[:1], [[Constraint("Haus", target)]])


def test_an_alternative_that_can_be_spelled_is_taken(translator):
    wanted = Constraint("Haus", "ñandu", ("house",))
    assert count(translator.translate(SOURCES[:1], [[wanted]])[0].text, "house") == 1


def test_an_unspellable_phrase_may_be_forbidden(translator):
    assert translator.translate(SOURCES[:1], forbidden=["ñandu"])[0].text == translator.translate(SOURCES[:1])[0].text


def test_batched_is_single(translator):
    together = [result.text for result in translator.translate(GERMAN[:8])]
    assert together == [translator.translate([text])[0].text for text in GERMAN[:8]]


def test_reading_its_own_output(translator):
    seen = translator.inspect(GERMAN[0], ENGLISH[0])
    assert seen.output_pieces[-1] == "</s>"


def test_the_folder_holds_the_files_of_any_model(translator, tmp_path: Path):
    import_marian(write_checkpoint(tmp_path), tmp_path / "model", ["de-en"])
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == ["model.json", "tokenizer.model", "weights.safetensors"]
