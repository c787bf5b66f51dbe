"""A finished model made deeper: it translates as before, and has room to learn more.

The paper compares its method, which adds parameters in stage 2, with baselines that have two more layers on each side.
Those layers can be added in stage 2 as well. They stand before the last layer, as copies of the last ones whose results
are multiplied by zero: with `pre`, where each sub-layer adds to a stream, they change nothing until they have learned
to. The last layer stays the last, because a pointer looks through its attention.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from termweave.config import ModelConfig
from termweave.errors import CheckpointError

# What a sub-layer's result goes through last.
_RESULTS = ("attention.output.", "self_attention.output.", "cross_attention.output.", "feed_forward.outer.")


def deepened(weights: Mapping[str, Tensor], found: ModelConfig, wanted: ModelConfig) -> dict[str, Tensor]:
    """The weights of a model `found` as those of one that is at least as deep; of the same names if it is as deep."""
    grown = dict(weights)
    for side in ("encoder", "decoder"):
        before, after = (getattr(config, f"{side}_layers") for config in (found, wanted))
        if before == after:
            continue
        if after < before or found.norm != "pre":
            raise CheckpointError(
                f"a model of {before} {side} layers with model.norm = {found.norm!r} cannot become one of {after}: "
                "only layers can be added, and only with model.norm = 'pre'"
            )
        if any(name.startswith("constraint_memory.") for name in weights):
            raise CheckpointError(
                f"a model with constraints in its attention cannot get more {side} layers; start from its stage 1"
            )
        grown = _with_layers(grown, side, before, after)
    return grown


def _with_layers(weights: Mapping[str, Tensor], side: str, before: int, after: int) -> dict[str, Tensor]:
    layers = [_layer(weights, f"{side}.{index}.") for index in range(before)]
    added = [_silent(layers[index % before]) for index in range(2 * before - after, before)]
    rest = {name: tensor for name, tensor in weights.items() if not name.startswith(f"{side}.")}
    stacked = [*layers[:-1], *added, layers[-1]]
    return rest | {
        f"{side}.{index}.{name}": tensor for index, layer in enumerate(stacked) for name, tensor in layer.items()
    }


def _layer(weights: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}


def _silent(layer: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: torch.zeros_like(tensor) if name.startswith(_RESULTS) else tensor.clone()
        for name, tensor in layer.items()
    }
