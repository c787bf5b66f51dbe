"""Model folders: round trip, averages worked out by hand, and refusals that say what is wrong."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from termweave.config import ModelConfig
from termweave.errors import CheckpointError
from termweave.model import checkpoint
from termweave.model.checkpoint import (
    average_weights,
    is_packed,
    load_checkpoint,
    load_settings,
    load_weights,
    pack_checkpoint,
    put_weights,
    ready_model,
    save_checkpoint,
)
from termweave.model.transformer import Transformer, constraint_parameters
from termweave.text.subwords import Subwords

CONFIG = ModelConfig(dimension=16, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=24, variant="paper")
PLAIN = dataclasses.replace(CONFIG, attention=False, output=False)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("subwords") / "tokenizer.model"
    Subwords.train(["der alte Müller verkauft Mehl", "the old miller sells flour"] * 10, path, size=310)
    return path


def model(tokenizer: Path, config: ModelConfig = CONFIG, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(config, Subwords.load(tokenizer).size, Subwords.pad)


@pytest.fixture
def folder(tokenizer: Path, tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "final", model(tokenizer).state_dict(), CONFIG, ["de-en", "en-de"], tokenizer)
    return tmp_path / "final"


def test_round_trip(folder, tokenizer):
    checkpoint = load_checkpoint(folder)
    assert checkpoint.directions == ("de-en", "en-de")
    assert checkpoint.model.config == CONFIG
    assert not checkpoint.model.training
    assert checkpoint.subwords.model == tokenizer.read_bytes()
    expected = model(tokenizer).state_dict()
    assert checkpoint.model.state_dict().keys() == expected.keys()
    assert all(torch.equal(checkpoint.model.state_dict()[name], tensor) for name, tensor in expected.items())


def test_a_folder_holds_these_files_and_nothing_executable(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["model.json", "tokenizer.model", "weights.safetensors"]
    settings = json.loads((folder / "model.json").read_text())
    assert settings["format"] == 1
    assert settings["model"]["variant"] == "paper"


def test_weights_may_be_stored_small_and_are_read_as_float32(folder, tokenizer):
    weights = load_weights(folder)
    save_checkpoint(folder, weights, CONFIG, ["de-en"], tokenizer, dtype=torch.bfloat16)
    assert load_file(folder / "weights.safetensors")["embedding"].dtype == torch.bfloat16
    again = load_weights(folder)
    assert again["embedding"].dtype == torch.float32
    torch.testing.assert_close(again["embedding"], weights["embedding"], rtol=2**-8, atol=0)


def test_a_packed_model_is_the_same_rounded_to_eight_bits(folder, tmp_path):
    pack_checkpoint(folder, tmp_path / "packed")
    whole, packed = load_checkpoint(folder), load_checkpoint(tmp_path / "packed")
    assert packed.directions == whole.directions and packed.model.config == whole.model.config
    for name, tensor in whole.model.state_dict().items():
        found = packed.model.state_dict()[name]
        if tensor.dim() < 2:
            assert torch.equal(found, tensor)
        else:
            half_a_step = tensor.abs().amax(dim=-1, keepdim=True) / 127 / 2
            assert ((found - tensor).abs() <= half_a_step * 1.001).all(), name
    assert load_file(tmp_path / "packed" / "weights.safetensors")["embedding"].dtype == torch.int8


def test_a_packed_model_is_known_by_its_weights(folder, tmp_path):
    pack_checkpoint(folder, tmp_path / "packed")
    assert is_packed(tmp_path / "packed") and not is_packed(folder)
    (tmp_path / "packed" / "weights.safetensors").write_bytes(b"none")
    with pytest.raises(CheckpointError, match="cannot be read"):
        is_packed(tmp_path / "packed")


def test_how_much_longer_targets_are_stays_with_the_model(tokenizer, tmp_path):
    weights = model(tokenizer).state_dict()
    save_checkpoint(tmp_path / "told", weights, CONFIG, ["de-en"], tokenizer, expansions={"de-en": 0.93})
    pack_checkpoint(tmp_path / "told", tmp_path / "packed")
    assert load_checkpoint(tmp_path / "packed").expansions == {"de-en": 0.93}
    save_checkpoint(tmp_path / "untold", weights, CONFIG, ["de-en"], tokenizer)
    assert load_checkpoint(tmp_path / "untold").expansions == {}


@pytest.mark.parametrize("expansions", [{"de-en": 0}, {"de-en": "long"}, [1], {"de-en": float("nan")}])
def test_what_cannot_be_an_expansion_is_refused(folder, expansions):
    settings = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(settings | {"expansions": expansions}))
    with pytest.raises(CheckpointError, match="is damaged"):
        load_checkpoint(folder)


def test_packing_twice_changes_nothing_more(folder, tmp_path):
    pack_checkpoint(folder, tmp_path / "once")
    pack_checkpoint(tmp_path / "once", tmp_path / "twice")
    once, twice = (load_file(tmp_path / name / "weights.safetensors") for name in ("once", "twice"))
    assert once.keys() == twice.keys()
    assert all(torch.equal(tensor, twice[name]) for name, tensor in once.items() if tensor.dtype == torch.int8)


def test_the_gate_of_copy_can_be_shifted_and_no_other(tokenizer, tmp_path):
    config = dataclasses.replace(CONFIG, variant="copy")
    save_checkpoint(tmp_path / "copy", model(tokenizer, config).state_dict(), config, ["de-en"], tokenizer)
    pack_checkpoint(tmp_path / "copy", tmp_path / "as-it-is")
    pack_checkpoint(tmp_path / "copy", tmp_path / "shifted", gate_shift=-2.0)
    before, after = (load_weights(tmp_path / name) for name in ("as-it-is", "shifted"))
    assert {name for name in before if not torch.equal(before[name], after[name])} == {"output.gate.bias"}
    assert torch.allclose(after["output.gate.bias"], before["output.gate.bias"] - 2)
    save_checkpoint(tmp_path / "plain", model(tokenizer, PLAIN).state_dict(), PLAIN, ["de-en"], tokenizer)
    with pytest.raises(CheckpointError, match="no gate to shift"):
        pack_checkpoint(tmp_path / "plain", tmp_path / "packed", gate_shift=-2.0)
    with pytest.raises(CheckpointError, match="cannot be shifted by nan"):
        pack_checkpoint(tmp_path / "copy", tmp_path / "packed", gate_shift=float("nan"))
    with pytest.raises(CheckpointError, match="packed into itself"):
        pack_checkpoint(tmp_path / "copy", tmp_path / "copy")


def test_a_failed_save_leaves_the_old_model(folder, tokenizer):
    with pytest.raises(FileNotFoundError):
        save_checkpoint(folder, model(tokenizer, seed=1).state_dict(), CONFIG, ["de-en"], tokenizer.parent / "absent")
    assert load_checkpoint(folder).directions == ("de-en", "en-de")
    assert [path.name for path in folder.parent.iterdir()] == ["final"]


def save_numbers(folder: Path, **numbers: list[float]) -> Path:
    folder.mkdir(parents=True)
    save_file({name: torch.tensor(values) for name, values in numbers.items()}, folder / "weights.safetensors")
    return folder


def test_averaging_by_hand(tmp_path):
    folders = [
        save_numbers(tmp_path / "a", scale=[1.0, 2.0], shift=[4.0]),
        save_numbers(tmp_path / "b", scale=[3.0, 2.0], shift=[-1.0]),
        save_numbers(tmp_path / "c", scale=[5.0, 8.0], shift=[0.0]),
    ]
    averaged = average_weights(folders)
    assert {name: tensor.tolist() for name, tensor in averaged.items()} == {"scale": [3.0, 4.0], "shift": [1.0]}
    assert averaged["scale"].dtype == torch.float32
    assert average_weights(folders[:1])["shift"].tolist() == [4.0]


def test_averaging_is_exact_where_float32_sums_are_not(tmp_path):
    folders = [save_numbers(tmp_path / name, value=[value]) for name, value in (("a", 2.0**24), ("b", 1.0), ("c", 1.0))]
    assert average_weights(folders)["value"].tolist() == [5592406.0]  # 5592405.5 if summed in float32


@pytest.mark.parametrize(
    "other",
    [{"scale": [1.0]}, {"scale": [1.0], "shift": [1.0, 2.0]}, {"scale": [1.0], "shift": [1.0], "more": [1.0]}],
    ids=["a tensor less", "another shape", "a tensor more"],
)
def test_different_models_are_not_averaged(tmp_path, other):
    first = save_numbers(tmp_path / "a", scale=[1.0], shift=[1.0])
    with pytest.raises(CheckpointError, match="cannot be averaged"):
        average_weights([first, save_numbers(tmp_path / "b", **other)])


def test_a_missing_folder_or_file_is_named(folder, tmp_path):
    with pytest.raises(CheckpointError, match=r"is not a model folder: it has no model\.json"):
        load_checkpoint(tmp_path / "absent")
    (folder / "weights.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"weights\.safetensors cannot be read"):
        load_checkpoint(folder)
    (folder / "tokenizer.model").unlink()
    with pytest.raises(CheckpointError, match="no subword model here"):
        load_checkpoint(folder)


@pytest.mark.parametrize("name", ["weights.safetensors", "model.json", "tokenizer.model"])
def test_damaged_files_are_named(folder, name):
    content = (folder / name).read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"\xff" * 64):
        (folder / name).write_bytes(damaged)
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
            load_checkpoint(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "has format 99, this version of Termweave reads format 1"),
        ({"model": {"heads": 3}}, "damaged.*multiple of 2"),
        ({"model": {"width": 3}}, "damaged.*unknown key"),
        ({"model": None}, "damaged"),
        ({"directions": None}, "damaged"),
    ],
)
def test_settings_of_another_kind_are_refused(folder, change, message):
    settings = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**settings, **change}))
    with pytest.raises(CheckpointError, match=message):
        load_settings(folder)


def test_settings_that_are_no_table_are_refused(folder):
    for text in ("[]", "3", "{}"):
        (folder / "model.json").write_text(text)
        with pytest.raises(CheckpointError, match="damaged"):
            load_settings(folder)


def test_constraint_parameters_may_be_missing_in_a_new_model_only(tokenizer, tmp_path):
    plain = model(tokenizer, PLAIN, seed=1).state_dict()
    whole = model(tokenizer)
    fresh = {name: whole.state_dict()[name].clone() for name in constraint_parameters(whole)}
    with pytest.raises(CheckpointError, match="do not fit the model: missing"):
        put_weights(model(tokenizer), plain, tmp_path)
    put_weights(whole, plain, tmp_path, new=True)
    assert all(torch.equal(whole.state_dict()[name], tensor) for name, tensor in plain.items())
    assert fresh
    assert all(torch.equal(whole.state_dict()[name], tensor) for name, tensor in fresh.items())


def test_plain_parameters_may_never_be_missing(tokenizer, tmp_path):
    plain = model(tokenizer, PLAIN).state_dict()
    del plain["encoder.0.attention.input.weight"]
    with pytest.raises(CheckpointError, match=r"missing \['encoder\.0\.attention\.input\.weight'\]"):
        put_weights(model(tokenizer), plain, tmp_path, new=True)


def test_weights_that_do_not_fit_are_refused(tokenizer, tmp_path):
    whole = model(tokenizer).state_dict()
    with pytest.raises(CheckpointError, match="unexpected"):
        put_weights(model(tokenizer, PLAIN), whole, tmp_path)
    wide = model(tokenizer, dataclasses.replace(CONFIG, dimension=32)).state_dict()
    with pytest.raises(CheckpointError, match="do not fit the model"):
        put_weights(model(tokenizer), wide, tmp_path)


def test_a_copy_without_the_ready_model_says_so(monkeypatch):
    monkeypatch.setattr(checkpoint, "SETTINGS", "absent.json")
    with pytest.raises(CheckpointError, match="holds no ready model; name a model folder"):
        ready_model()
