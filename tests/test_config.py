"""Configuration files: every mistake is named, with its key and, where there is one, the near miss."""

from __future__ import annotations

import dataclasses
import re
import typing
from pathlib import Path

import pytest

from termweave import config as module
from termweave.config import Config, ModelConfig, StageConfig, TrainingConfig, from_tree, load_config, to_tree
from termweave.errors import ConfigError

SMALLEST = """
[data]
folder = "prepared"
directions = ["de-en"]

[[corpora]]
source = "text.de"
target = "text.en"

[training]
folder = "model"
"""


@pytest.fixture
def write(tmp_path: Path) -> typing.Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refused(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value)


def test_the_smallest_file_takes_every_default(write):
    config = load_config(write(SMALLEST))
    assert config.data.directions == ("de-en",)
    assert config.corpora[0].source == "text.de"
    assert config.model == ModelConfig()
    assert config.training == TrainingConfig(folder="model")
    assert (config.model.dimension, config.model.heads, config.model.encoder_layers) == (512, 8, 6)


def test_every_default_is_valid():
    """Also those of tables a test never names: building each dataclass runs its checks."""
    required = {
        "CorpusConfig": {"source": "a", "target": "b"},
        "TestSetConfig": {"source": "a", "target": "b"},
        "DataConfig": {"folder": "f", "directions": ["de-en"]},
        "StageConfig": {"steps": 1},
        "TrainingConfig": {"folder": "f"},
        "Config": {
            "data": {"folder": "f", "directions": ["de-en"]},
            "training": {"folder": "f"},
            "corpora": [{"tmx": "a"}],
        },
    }
    kinds = [kind for kind in vars(module).values() if dataclasses.is_dataclass(kind)]
    assert len(kinds) >= 11
    for kind in kinds:
        built = from_tree(kind, required.get(kind.__name__, {}))
        assert from_tree(kind, to_tree(built)) == built


@pytest.mark.parametrize(
    ("line", "key", "near"),
    [
        ("[model]\nhead = 4", "model.head", "heads"),
        ("[model]\ndimensions = 4", "model.dimensions", "dimension"),
        ("[modell]\nheads = 4", "modell", "model"),
        ("[training.stage2]\nsteps = 1\nlerning_rate = 1e-3", "training.stage2.lerning_rate", "learning_rate"),
        ("[[test_sets]]\nsource = 'a'\ntargets = 'b'", "test_sets[0].targets", "target"),
    ],
)
def test_an_unknown_key_is_refused_with_the_near_miss(write, line, key, near):
    text = SMALLEST.replace("[training]", line + "\n\n[training]")
    message = refused(write(text))
    assert f"unknown key `{key}`" in message
    assert f"did you mean `{near}`?" in message


def test_an_unknown_key_like_no_other_lists_those_there_are(write):
    message = refused(write(SMALLEST + "\n[alignment]\nzzz = 1"))
    assert "unknown key `alignment.zzz`; known here: method" in message


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model.heads='four'", "model.heads: expected int, got 'four'"),
        ("model.heads=4.0", "model.heads: expected int, got 4.0"),
        ("model.heads=true", "model.heads: expected int, got True"),
        ("model.attention=1", "model.attention: expected bool, got 1"),
        ("model.dropout='much'", "model.dropout: expected float, got 'much'"),
        ("training.folder=5", "training.folder: expected str, got 5"),
        ("training.stage1.warmup=[1]", "training.stage1.warmup: expected int, got [1]"),
        ("model.variant=plug", "model.variant: 'plug' is not one of 'copy', 'paper', 'released', 'pointer'"),
        ("model={variant='pointer', attention=false}", "model.attention: `pointer` learns of constraints from"),
        ("data.directions='de-en'", "data.directions: expected a list, got 'de-en'"),
        ("data.directions=['de-en', 3]", "data.directions[1]: expected str, got 3"),
        ("model=3", "model: expected a table, got 3"),
    ],
)
def test_a_wrong_type_names_the_key(write, override, expected):
    overrides = ["training.stage1.steps=10", override] if "stage1" in override else [override]
    assert expected in refused(write(SMALLEST), *overrides)


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("data.directions=[]", "data.directions"),
        ("data.directions=['deen']", "data.directions"),
        ("data.directions=['de-de']", "data.directions"),
        ("data.directions=['de-en', 'de-en']", "data.directions"),
        ("data.max_tokens=1", "data.max_tokens"),
        ("data.max_ratio=1.0", "data.max_ratio"),
        ("subwords.size=10", "subwords.size"),
        ("subwords.size=70000", "subwords.size"),
        ("subwords.character_coverage=0.5", "subwords.character_coverage"),
        ("phrases.max_words=0", "phrases.max_words"),
        ("sampling.max_constraints=0", "sampling.max_constraints"),
        ("sampling.max_words=0", "sampling.max_words"),
        ("sampling.max_tokens=0", "sampling.max_tokens"),
        ("sampling.empty_share=1.1", "sampling.empty_share"),
        ("sampling.code_switch=-0.1", "sampling.code_switch"),
        ("model.dimension=100", "model.dimension"),
        ("model.dimension=0", "model.dimension"),
        ("model.heads=0", "model.heads"),
        ("model.dropout=1.0", "model.dropout"),
        ("model.encoder_layers=0", "model: needs at least one layer"),
        ("training.batch_tokens=8", "training.batch_tokens"),
        ("training.accumulation=0", "training.accumulation"),
        ("training.label_smoothing=1.0", "training.label_smoothing"),
        ("training.average=6", "training.keep"),
        ("training.log_every=0", "training.log_every"),
        ("training.checkpoint_every=0", "training.checkpoint_every"),
        ("validation.every=0", "validation.every"),
        ("validation.beam=0", "validation.beam"),
        ("training.stage1={steps=0}", "training.stage1.steps"),
        ("training.stage2={steps=1, warmup=0}", "training.stage2.warmup"),
        ("training.stage1={steps=1, cooldown=2}", "training.stage1.cooldown"),
        ("training.stage2={steps=1, alpha=0}", "training.stage2.alpha"),
        ("training.stage2={steps=1, learning_rate=0}", "training.stage2.learning_rate"),
        ("corpora=[]", "corpora"),
        ("corpora=[{source='a'}]", "corpora[0]: give either"),
        ("corpora=[{source='a', target='b', tmx='c'}]", "corpora[0]: give either"),
    ],
)
def test_an_impossible_value_names_the_key(write, override, key):
    path = write(SMALLEST)
    message = refused(path, override)
    assert message.removeprefix(f"{path}: ").startswith(key)


def test_a_missing_key_is_named(write):
    assert "data.folder is missing" in refused(write(SMALLEST.replace('folder = "prepared"', "")))
    assert "training is missing" in refused(write(SMALLEST.partition("[training]")[0]))
    assert "corpora is missing" in refused(write(SMALLEST.replace("[[corpora]]", "[[test_sets]]")))
    assert "test_sets[0].target is missing" in refused(write(SMALLEST), "test_sets=[{source='a'}]")


def test_errors_name_the_file(write, tmp_path):
    path = write(SMALLEST + "\n[model]\nhead = 4")
    assert refused(path).startswith(f"{path}: ")
    assert "no such file" in refused(tmp_path / "absent.toml")
    assert "is a folder" in refused(tmp_path)
    assert "is not valid TOML" in refused(write("[data\nfolder = 3"))
    broken = tmp_path / "latin.toml"
    broken.write_bytes('folder = "Müller"'.encode("latin-1"))
    assert "is not valid TOML" in refused(broken)


def test_overrides_replace_single_keys_at_any_depth(write):
    config = load_config(
        write(SMALLEST + "\n[training.stage1]\nsteps = 7\nwarmup = 3\n"),
        ["model.heads=4", "training.stage1.steps=9", "data.folder=elsewhere", "training.stage2={steps=2}"],
    )
    assert config.model.heads == 4
    assert config.training.stage1 == StageConfig(steps=9, warmup=3)
    assert config.training.stage2.steps == 2
    assert config.data.folder == "elsewhere"  # a bare word is text


def test_a_table_given_in_part_keeps_the_defaults_of_its_place(write):
    config = load_config(write(SMALLEST + "\n[training.stage2]\nsteps = 7\n"), ["training.stage1.warmup=3"])
    defaults = TrainingConfig(folder="model")
    assert config.training.stage2 == dataclasses.replace(defaults.stage2, steps=7)
    assert config.training.stage1 == dataclasses.replace(defaults.stage1, warmup=3)
    assert defaults.stage1.learning_rate != defaults.stage2.learning_rate


def test_an_override_must_be_a_pair_and_reach_a_table(write):
    assert "write it as key=value" in refused(write(SMALLEST), "model.heads")
    assert "corpora is not a table" in refused(write(SMALLEST), "corpora.source=a")
    assert "did you mean `heads`" in refused(write(SMALLEST), "model.hedas=4")


def test_whole_numbers_are_taken_for_floats(write):
    dropout = load_config(write(SMALLEST), ["model.dropout=0"]).model.dropout
    assert dropout == 0.0
    assert type(dropout) is float


def test_round_trip_through_plain_values(write):
    config = load_config(
        write(SMALLEST + "\n[[test_sets]]\nsource = 'a'\ntarget = 'b'\n[sampling]\ncode_switch = 0.25\n"),
        ["data.directions=['de-en', 'en-de']", "model.variant=paper", "training.stage1={steps=3, alpha=0.8}"],
    )
    assert from_tree(Config, to_tree(config)) == config
    assert to_tree(config)["training"]["stage1"]["alpha"] == 0.8


def test_configurations_cannot_be_changed(write):
    config = load_config(write(SMALLEST))
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.model.heads = 4


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "configs").glob("*.toml")), ids=lambda p: p.name)
def test_the_configurations_that_come_along_are_valid(path):
    assert load_config(path).corpora


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.seed=-1", "training.seed"),
        ("training.max_gradient_norm=-1.0", "training.max_gradient_norm"),
        ('training.folder=""', "training.folder"),
        ('data.folder=""', "data.folder"),
        ("data.workers=-3", "data.workers"),
        ("data.max_characters=0", "data.max_characters"),
        ("subwords.sample=0", "subwords.sample"),
        ("model.feed_forward=0", "model.feed_forward"),
        ('corpora=[{tmx="a.tmx", links="a.links"}]', "corpora[0]: `links`"),
        ('corpora=[{tmx="a.tmx", source="a.de"}]', "corpora[0]: give either"),
    ],
)
def test_numbers_and_names_that_cannot_work_are_refused(setting, message):
    path = Path(__file__).parents[1] / "configs" / "de-en.toml"
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_config(path, [setting])
