"""Keys and values of what the hypotheses have produced, in a cache that never moves.

Beam search reorders its hypotheses after every step. Copying keys and values along would cost more than the attention
over them, so they stay where they were written, and a small table of integers says who descends from whom:

| step | slot 0 | slot 1 | hypothesis 0 now descends from slot 1 of step 0 and slot 0 of step 1: |
|------|--------|--------|----------------------------------------------------------------------|
| 0    | `der`  | `ein`  | `ancestry[0]` is [1, 0], it sees `ein Haus`,                         |
| 1    | `Haus` | `Baum` | and the other keys are hidden from it                                |

The hypotheses of a sentence are the queries of one attention over all its steps · beam keys; the mask made from the
table is the same for all layers. Every key is read once for the whole beam, and none is ever copied by a reordering.

`FixedCache` does the same without a shape or an address that changes from step to step, as CUDA graphs need it. On a
GPU, a kernel follows the table by itself, and on a CPU compiled loops do; then there is no mask.
"""

from __future__ import annotations

import torch
from torch import Tensor

from termweave.accelerators import has_kernels
from termweave.model import attention_loops
from termweave.model.attention import KeysValues, attend

NOBODY = -1
CHUNK = 32  # steps there is room for at first; most outputs are far shorter than their limit


class SelfAttentionCache:
    """Per layer keys and values (batch, heads, steps · beam, d / heads), and the ancestry (batch, beam, steps)."""

    def __init__(
        self,
        layers: int,
        batch: int,
        beam: int,
        heads: int,
        width: int,
        like: Tensor,
        steps: int = CHUNK,
        rounded: bool = False,
    ) -> None:
        """width: d / heads; like: a tensor of the type and on the device to use; steps: that there is room for.

        rounded: see `attention_loops.kept_kind`.
        """
        kind = attention_loops.kept_kind(like, rounded)
        # Zeros, not whatever lies in memory: a hidden value weighs nothing, but nothing times NaN is NaN.
        self.layers = [
            KeysValues(*(like.new_zeros(batch, heads, steps * beam, width, dtype=kind) for _ in range(2)))
            for _ in range(layers)
        ]
        self.beam = beam
        self.length = 0  # steps written
        self.position = torch.zeros((), dtype=torch.long, device=like.device)  # the same on the device
        self.slots = torch.arange(beam, device=like.device)
        # Where nothing was written there is no ancestor, and nothing to see.
        self.ancestry = torch.full((batch, beam, steps), NOBODY, dtype=torch.long, device=like.device)
        self.mask = like.new_empty(0)  # (batch, 1, hypotheses, steps · beam): 0 is visible, −inf is hidden
        self._has_loops = attention_loops.can_attend(like)

    @property
    def capacity(self) -> int:
        return self.ancestry.shape[2]

    def row_of(self, table: Tensor) -> Tensor:
        """The row of a table that belongs to this step."""
        return table[self.length]

    def begin_step(self, hypotheses: int) -> None:
        """The first step may have fewer hypotheses than the beam: one, as all start alike."""
        if self.length == self.capacity:
            self.grow()
        self.ancestry[:, :, self.length] = self.slots
        if not self._has_loops:
            self._show(self.ancestry[:, :hypotheses, : self.length + 1])

    def _show(self, ancestors: Tensor) -> None:
        """ancestors: (batch, hypotheses, steps)."""
        hidden = (ancestors.unsqueeze(3) != self.slots).flatten(2).unsqueeze(1)
        self.mask = torch.zeros_like(hidden, dtype=self.layers[0].keys.dtype).masked_fill_(hidden, float("-inf"))

    def write(self, layer: int, own: KeysValues) -> KeysValues:
        """Add one step's keys and values, (batch, heads, hypotheses, d / heads); returns all there are now."""
        keys, values = self.layers[layer]
        start = self.length * self.beam
        keys[:, :, start : start + own.keys.shape[2]] = own.keys
        values[:, :, start : start + own.keys.shape[2]] = own.values
        end = start + self.beam
        return KeysValues(keys[:, :, :end], values[:, :, :end])

    def attend(self, layer: int, queries: Tensor, own: KeysValues) -> Tensor:
        """What the hypotheses of this step see, (batch, hypotheses, d); own: their keys and values, which are added."""
        if self._has_loops:
            return attention_loops.attend_past(queries, own, self.layers[layer], self.ancestry, self.length)
        return self._attend_to_all(layer, queries, own)

    def _attend_to_all(self, layer: int, queries: Tensor, own: KeysValues) -> Tensor:
        return attend(queries, self.write(layer, own), self.mask)

    def end_step(self) -> None:
        self.length += 1
        self.position += 1

    def reorder(self, parents: Tensor) -> None:
        """Hypothesis i now continues what was hypothesis parents[i]; parents: (batch, beam)."""
        self._reorder(self.ancestry[:, :, : self.length], parents)

    @staticmethod
    def _reorder(written: Tensor, parents: Tensor) -> None:
        written.copy_(written.gather(1, parents.unsqueeze(2).expand(-1, -1, written.shape[2])))

    def select(self, rows: Tensor) -> None:
        """Keep some sentences of the batch."""
        self.layers = [past.select(rows) for past in self.layers]
        self.ancestry = self.ancestry[rows]

    def grow(self) -> None:
        """Twice the room: in all, no more is copied than was ever written."""
        self.layers = [
            KeysValues(*(torch.cat([tensor, torch.zeros_like(tensor)], dim=2) for tensor in past))
            for past in self.layers
        ]
        self.ancestry = torch.cat([self.ancestry, torch.full_like(self.ancestry, NOBODY)], dim=2)


class FixedCache(SelfAttentionCache):
    """The same work on the same memory in every step: nothing depends on how many steps were taken but through
    `position`. Attention runs over all there is room for; what has no ancestor is hidden. Growing is the caller's."""

    def row_of(self, table: Tensor) -> Tensor:
        return table.index_select(0, self.position.view(1)).squeeze(0)

    def begin_step(self, hypotheses: int) -> None:
        place = self.position.view(1)
        self.ancestry.index_copy_(2, place, self.slots[None, :, None].expand(len(self.ancestry), -1, 1))
        if not self._has_kernel:
            self._places = self.position * self.beam + self.slots
            self._show(self.ancestry)

    @property
    def _has_kernel(self) -> bool:
        if not has_kernels(self.ancestry.device):
            return False
        from termweave.model import attention_kernels

        return attention_kernels.can_attend(self.beam, self.layers[0].keys.shape[3])

    def attend(self, layer: int, queries: Tensor, own: KeysValues) -> Tensor:
        if not self._has_kernel:
            return self._attend_to_all(layer, queries, own)
        from termweave.model import attention_kernels

        return attention_kernels.attend_past(queries, own, self.layers[layer], self.ancestry, self.position)

    def write(self, layer: int, own: KeysValues) -> KeysValues:
        past = self.layers[layer]
        past.keys.index_copy_(2, self._places, own.keys)
        past.values.index_copy_(2, self._places, own.values)
        return past

    def end_step(self) -> None:
        """The host counts `length` by itself: this may be replayed without it."""
        self.position += 1

    def reorder(self, parents: Tensor) -> None:
        self._reorder(self.ancestry, parents)
