"""The model that comes with the package: it is found, small, translates both ways, and keeps to terms."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termweave import Glossary, GlossaryEntry, Terminology, Translator
from termweave.config import load_config
from termweave.evaluation.csr import constraints_met
from termweave.experiments.showcase import GLOSSARIES, SENTENCES, show_glossary
from termweave.model.checkpoint import load_settings, ready_model

MOST_MEBIBYTES = 32
ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "configs" / "ready.toml"
# Words of the sentences below, and targets that no translation would choose by itself.
SOURCES = ("Haus", "Brücke", "Stadt", "Fluss", "Morgen", "Brief", "Garten", "Fenster")
TARGETS = ("zebra", "quarterly report", "blue-green deployment", "Łódź", "e-mail 2.0", "jigsaw", "the old oak", "N/A")


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(device="cpu", precision="int8")


def test_its_size_and_shape_are_those_of_the_recipe():
    folder = ready_model()
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MOST_MEBIBYTES * 2**20
    config = load_config(RECIPE)
    assert load_settings(folder) == (config.model, tuple(config.data.directions))


def test_it_translates_both_ways(translator: Translator):
    (english,) = translator.translate(["Der Lehrer hat ein Haus gekauft."], direction="de-en")
    assert {"teacher", "house"} <= set(english.text.rstrip(".").split())
    (german,) = translator.translate(["The teacher has bought a house."], direction="en-de")
    assert {"Lehrer", "Haus"} <= set(german.text.rstrip(".").split())


def test_the_example_of_the_readme_gives_what_stands_below_it(capsys: pytest.CaptureFixture[str]):
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## From Python")[2]
    _, code, _, shown = section.split("```")[:4]
    exec(code.removeprefix("python"), {})
    assert capsys.readouterr().out == shown.removeprefix("\n")


def test_every_term_of_the_demo_is_met(translator: Translator):
    receipts = show_glossary(translator)
    wanted = {entry.source for direction in GLOSSARIES for entry in GLOSSARIES[direction]}
    assert wanted <= {receipt.source for receipt in receipts}
    assert {receipt.status for receipt in receipts} <= {"met", "met by alternative", "kept"}


def test_terms_change_what_it_says(translator: Translator):
    sentences = SENTENCES["de-en"]
    plain = translator.translate(sentences, direction="de-en")
    bound = translator.translate(sentences, direction="de-en", terminology=Glossary.of(GLOSSARIES["de-en"], "de-en"))
    assert all(a.text != b.text for a, b in zip(plain, bound, strict=True))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_the_terms_are_they_stand_in_the_output(translator: Translator, data: st.DataObject):
    """More and odder ones than training had, counted by the function that measures test sets."""
    found = data.draw(st.lists(st.sampled_from(SOURCES), min_size=1, max_size=6, unique=True))
    entries = [GlossaryEntry(source, (data.draw(st.sampled_from(TARGETS)),)) for source in found]
    sentence = f"Am Ende sahen wir auch {', '.join(found)} und gingen weiter."
    terminology = Terminology(Glossary.of(entries, "de-en"), "de-en")
    (result,) = translator.translate([sentence], direction="de-en", terminology=terminology)
    assert all(constraints_met(result.text, terminology.plan(sentence).required, "en")), result.text
    assert [receipt.status for receipt in result.receipts] == ["met"] * len(found)


def test_on_a_cpu_it_runs_in_eight_bits_unless_told_otherwise(translator: Translator):
    sentence = ["Der Lehrer hat ein Haus gekauft."]
    scores = [
        own.translate(sentence, direction="de-en")[0].score
        for own in (translator, Translator.load(device="cpu"), Translator.load(device="cpu", precision="float32"))
    ]
    assert scores[0] == scores[1] != scores[2]
