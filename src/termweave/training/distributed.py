"""Several processes through `torchrun`: who am I, and sums over all of us."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Processes:
    """This process among those that train together."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """The one that writes files and speaks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum of a small tensor over all processes."""
        if self.count > 1:
            dist.all_reduce(values)
        return values

    def gather(self, values: Tensor) -> list[Tensor]:
        """The same-sized small tensor of every process, by rank."""
        if self.count == 1:
            return [values]
        gathered = [torch.empty_like(values, device=self.device) for _ in range(self.count)]
        dist.all_gather(gathered, values.to(self.device))
        return gathered

    def wait(self) -> None:
        if self.count > 1:
            dist.barrier()


@contextmanager
def processes(device: torch.device) -> Iterator[Processes]:
    """Join the group torchrun started, if any; alone otherwise."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(0, 1, device)
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Processes(dist.get_rank(), count, device)
    finally:
        dist.destroy_process_group()
