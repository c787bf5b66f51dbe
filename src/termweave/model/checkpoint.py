"""A model folder: weights as safetensors, configuration as JSON, and the tokenizer. Nothing in it is executable."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from termweave import storage
from termweave.config import ModelConfig, from_tree, to_tree
from termweave.errors import CheckpointError, TermweaveError
from termweave.model.quantised import quantise
from termweave.model.transformer import Transformer, constraint_parameters
from termweave.text.marian_vocabulary import load_vocabulary
from termweave.text.vocabulary import Vocabulary

FORMAT = 1  # rises when older folders can no longer be read
SCALES = ".scales"  # behind the name of a weight kept in integers: what one of each row is worth
COPY_GATE = "output.gate.bias"
EXPANSIONS = "expansions"  # in the settings, where it is known
WEIGHTS, SETTINGS, TOKENIZER = "weights.safetensors", "model.json", "tokenizer.model"


@dataclass(frozen=True)
class Checkpoint:
    """A model with all it needs to translate."""

    model: Transformer
    subwords: Vocabulary
    directions: tuple[str, ...]  # what it translates, "de-en" for German into English
    # Subwords of a target for each of its source, in the middle of the training text; for directions where it is known.
    expansions: Mapping[str, float] = field(default_factory=dict)


def save_checkpoint(
    folder: Path,
    weights: Mapping[str, Tensor],
    config: ModelConfig,
    directions: Sequence[str],
    tokenizer: Path,
    dtype: torch.dtype | None = None,
    expansions: Mapping[str, float] | None = None,
) -> None:
    """Write a model folder; an older one under the same name stays whole until the new one is."""
    with storage.atomic_path(folder) as partial:
        partial.mkdir()
        tensors = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in weights.items()}
        save_file(tensors, partial / WEIGHTS)
        (partial / WEIGHTS).chmod(0o644)  # safetensors writes it for the owner's eyes only
        settings = {"format": FORMAT, "directions": list(directions), "model": to_tree(config)}
        storage.write_json(partial / SETTINGS, settings | ({EXPANSIONS: dict(expansions)} if expansions else {}))
        shutil.copyfile(tokenizer, partial / TOKENIZER)


def load_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a model folder, in float32."""
    try:
        stored = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder / WEIGHTS} cannot be read: {error}") from None
    scales = {name: stored.pop(name + SCALES) for name in list(stored) if name + SCALES in stored}
    return {
        name: tensor.float() * scales[name].unsqueeze(-1) if name in scales else tensor.float()
        for name, tensor in stored.items()
    }


def pack_checkpoint(folder: Path, output: Path, gate_shift: float = 0.0) -> None:
    """The same model at a quarter of the size: matrices as integers of eight bits, with a scale for each row.

    gate_shift is added to the bias of the gate of `copy`. Training with alpha > beta counts the tokens of constraints
    for more than they are, and so the gate opens too readily; below zero, it opens less.
    """
    config, directions = load_settings(folder)
    if folder.resolve() == output.resolve():
        raise CheckpointError(f"{folder} would be packed into itself; name another folder to write")
    if not math.isfinite(gate_shift):
        raise CheckpointError(f"a gate cannot be shifted by {gate_shift}; give a number such as -2")
    if gate_shift and not (config.output and config.variant == "copy"):
        raise CheckpointError(f"{folder} has no gate to shift: only the output layer `copy` of stage 2 has one")
    packed: dict[str, Tensor] = {}
    for name, tensor in load_weights(folder).items():
        if tensor.dim() < 2:
            packed[name] = tensor + gate_shift if name == COPY_GATE else tensor
            continue
        integers, scales = quantise(tensor)
        packed |= {name: integers, name + SCALES: scales}
    save_checkpoint(output, packed, config, directions, folder / TOKENIZER, expansions=load_expansions(folder))


def is_packed(folder: Path) -> bool:
    """Are its weights kept in integers of eight bits?"""
    try:
        with safe_open(folder / WEIGHTS, "pt") as stored:
            return any(name.endswith(SCALES) for name in stored.keys())  # noqa: SIM118  # it is no dictionary
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder / WEIGHTS} cannot be read: {error}") from None


def load_settings(folder: Path) -> tuple[ModelConfig, tuple[str, ...]]:
    with _damage_told(folder):
        settings = _read_settings(folder)
        directions = settings["directions"]
        if not isinstance(directions, list) or not directions or not all(isinstance(name, str) for name in directions):
            raise ValueError("directions must be a list of names such as de-en")
        return from_tree(ModelConfig, settings["model"]), tuple(directions)


def load_expansions(folder: Path) -> dict[str, float]:
    """`Checkpoint.expansions` of a model folder."""
    with _damage_told(folder):
        found = {str(name): float(value) for name, value in _read_settings(folder).get(EXPANSIONS, {}).items()}
        if not all(0 < value < math.inf for value in found.values()):
            raise ValueError(f"{EXPANSIONS} must be numbers above 0")
        return found


def _read_settings(folder: Path) -> dict[str, Any]:
    if not (folder / SETTINGS).is_file():
        raise CheckpointError(f"{folder} is not a model folder: it has no {SETTINGS}")
    settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    if settings["format"] != FORMAT:
        raise CheckpointError(
            f"{folder} has format {settings['format']}, this version of Termweave reads format {FORMAT}"
        )
    return settings


@contextmanager
def _damage_told(folder: Path) -> Iterator[None]:
    try:
        yield
    except CheckpointError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, TermweaveError) as error:
        raise CheckpointError(f"{folder / SETTINGS} is damaged: {error!r}") from None


def ready_model() -> Path:
    """The model that comes with the package."""
    folder = Path(__file__).parents[1] / "ready"
    if not (folder / SETTINGS).is_file():
        raise CheckpointError("this copy of Termweave holds no ready model; name a model folder of your own (--model)")
    return folder


def load_checkpoint(folder: Path, device: torch.device | str = "cpu") -> Checkpoint:
    config, directions = load_settings(folder)
    subwords = load_vocabulary(folder / TOKENIZER)
    with torch.device("meta"):  # no memory, no random numbers: the weights come from the folder
        model = Transformer(config, subwords.size, subwords.pad)
    put_weights(model, load_weights(folder), folder, assign=True)
    return Checkpoint(model.to(device).eval(), subwords, directions, load_expansions(folder))


def put_weights(
    model: Transformer, weights: Mapping[str, Tensor], folder: Path, new: bool = False, assign: bool = False
) -> None:
    """Fill a model. With `new`, the constraint parameters θ_c may be missing and keep their fresh values.

    assign: the tensors themselves become the model's, instead of being copied into it.
    """
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    others = [name for name, tensor in weights.items() if name in shapes and tensor.shape != shapes[name]]
    if others:
        raise CheckpointError(f"the weights in {folder} do not fit the model: other sizes of {others[:3]}")
    missing, unexpected = model.load_state_dict(weights, strict=False, assign=assign)
    if new:
        missing = [name for name in missing if name not in constraint_parameters(model)]
    if missing or unexpected:
        raise CheckpointError(
            f"the weights in {folder} do not fit the model: missing {missing[:3]}, unexpected {unexpected[:3]}"
        )


def require_same_vocabulary(folder: Path, tokenizer: Path) -> None:
    """Weights belong to a vocabulary: on the ids of another one they would be noise, and nothing would show it."""
    if (folder / TOKENIZER).read_bytes() != tokenizer.read_bytes():
        raise CheckpointError(
            f"{folder} was trained with another vocabulary than {tokenizer}; prepare the corpus with "
            f"subwords.model = {str(folder / TOKENIZER)!r}, or choose another folder"
        )


def require_same_model(folder: Path, settings: ModelConfig) -> None:
    """Sizes show it if weights do not fit; the number of heads or the activation would be wrong in silence.

    A later stage may have more layers, see `growth`.
    """
    found = load_settings(folder)[0]
    own = ["dropout", "attention", "output", "variant", "alignment_layer"]  # free to be others in a later stage
    own += [name for name in ("encoder_layers", "decoder_layers") if getattr(settings, name) > getattr(found, name)]
    pairs = {name: value for name, value in to_tree(found).items() if name not in own}
    wrong = [f"{name} = {json.dumps(value)}" for name, value in pairs.items() if value != getattr(settings, name)]
    if wrong:
        raise CheckpointError(
            f"{folder} is another model than the configuration's; there, set [model] {', '.join(wrong)}"
        )


def average_weights(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights, read one after the other."""
    total = {name: tensor.double() for name, tensor in load_weights(folders[0]).items()}
    for folder in folders[1:]:
        weights = load_weights(folder)
        for name in sorted(total.keys() | weights.keys()):
            if name not in total or name not in weights or total[name].shape != weights[name].shape:
                raise CheckpointError(f"{folder} cannot be averaged with {folders[0]}: {name} differs")
            total[name] += weights[name]
    return {name: (tensor / len(folders)).float() for name, tensor in total.items()}
