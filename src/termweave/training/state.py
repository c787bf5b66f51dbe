"""What a run must remember to go on exactly where it stopped: optimiser, random state, step.

Stored as safetensors and JSON, never as pickles.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from termweave import storage
from termweave.errors import CheckpointError

STATE, POSITION = "training.safetensors", "training.json"


def random_state(device: torch.device) -> Tensor:
    """The random state of this process, of the CPU and of its GPU, as one row of bytes."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return torch.cat(states)


def set_random_state(state: Tensor, device: torch.device) -> None:
    size = len(torch.get_rng_state())
    torch.set_rng_state(state[:size].clone())
    if device.type == "cuda" and len(state) > size:
        torch.cuda.set_rng_state(state[size:].clone(), device)


def save_state(
    folder: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    random_states: list[Tensor],
    position: dict[str, Any],
) -> None:
    """random_states: one for each process."""
    tensors = {f"random.{rank}": state.cpu() for rank, state in enumerate(random_states)}
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = torch.as_tensor(value).detach().cpu().contiguous()
    save_file(tensors, folder / STATE)
    storage.write_json(folder / POSITION, position)


def load_state(
    folder: Path, model: nn.Module, optimiser: torch.optim.Optimizer, rank: int, device: torch.device
) -> dict[str, Any]:
    """Restore optimiser and random state; returns the position. A process new to the run keeps its fresh state."""
    try:
        tensors = load_file(folder / STATE)
        position: dict[str, Any] = storage.read_json(folder / POSITION)
    except Exception as error:
        raise CheckpointError(
            f"{folder} cannot be resumed from ({error}); remove it to go on from the one before"
        ) from None
    for name, parameter in model.named_parameters():
        saved = {key.partition("/")[0]: value for key, value in tensors.items() if key.partition("/")[2] == name}
        if saved:
            optimiser.state[parameter] = {
                key: value if key == "step" and not _fused(optimiser) else value.to(parameter.device)
                for key, value in saved.items()
            }
    if f"random.{rank}" in tensors:
        set_random_state(tensors[f"random.{rank}"], device)
    return position


def _fused(optimiser: torch.optim.Optimizer) -> bool:
    return bool(optimiser.defaults.get("fused"))
