"""Keys and values of what the hypotheses have produced, in a cache that never moves.

Beam search reorders its hypotheses after every step. Copying keys and values along would cost more than the attention
over them, so they stay where they were written, and a small table of integers says who descends from whom:

| step | slot 0 | slot 1 | hypothesis 0 now descends from slot 1 of step 0 and slot 0 of step 1: |
|------|--------|--------|----------------------------------------------------------------------|
| 0    | `der`  | `ein`  | `ancestry[0]` is [1, 0], it sees `ein Haus`,                         |
| 1    | `Haus` | `Baum` | and the other keys are hidden from it                                |

The hypotheses of a sentence are the queries of one attention over all its steps · beam keys; the mask made from the
table is the same for all layers. Every key is read once for the whole beam, and none is ever copied by a reordering.
"""

from __future__ import annotations

import torch
from torch import Tensor

from termweave.model.attention import KeysValues

CHUNK = 32  # steps there is room for at first; most outputs are far shorter than their limit


class SelfAttentionCache:
    """Per layer keys and values (batch, heads, steps · beam, d / heads), and the ancestry (batch, beam, steps)."""

    def __init__(self, layers: int, batch: int, beam: int, heads: int, width: int, like: Tensor) -> None:
        """width: d / heads; like: a tensor of the type and on the device to use."""
        # Zeros, not whatever lies in memory: a hidden value weighs nothing, but nothing times NaN is NaN.
        self.layers = [
            KeysValues(*(like.new_zeros(batch, heads, CHUNK * beam, width) for _ in range(2))) for _ in range(layers)
        ]
        self.beam = beam
        self.length = 0  # steps written
        self.slots = torch.arange(beam, device=like.device)
        self.ancestry = self.slots[None, :, None].repeat(batch, 1, CHUNK)  # before it is written, a slot is its own
        self.mask = like.new_empty(0)  # (batch, 1, hypotheses, steps · beam): 0 is visible, −inf is hidden

    @property
    def capacity(self) -> int:
        return self.ancestry.shape[2]

    def begin_step(self, hypotheses: int) -> None:
        """Make the mask of the step. Only the first has fewer hypotheses than the beam: one, as all start alike."""
        if self.length == self.capacity:
            self._grow()
        ancestors = self.ancestry[:, :hypotheses, : self.length + 1, None]
        hidden = (ancestors != self.slots).flatten(2).unsqueeze(1)
        self.mask = torch.zeros_like(hidden, dtype=self.layers[0].keys.dtype).masked_fill_(hidden, float("-inf"))

    def write(self, layer: int, own: KeysValues) -> KeysValues:
        """Add one step's keys and values, (batch, heads, hypotheses, d / heads); returns all there are now."""
        keys, values = self.layers[layer]
        start = self.length * self.beam
        keys[:, :, start : start + own.keys.shape[2]] = own.keys
        values[:, :, start : start + own.keys.shape[2]] = own.values
        end = start + self.beam
        return KeysValues(keys[:, :, :end], values[:, :, :end])

    def end_step(self) -> None:
        self.length += 1

    def reorder(self, parents: Tensor) -> None:
        """Hypothesis i now continues what was hypothesis parents[i]; parents: (batch, beam)."""
        written = self.ancestry[:, :, : self.length]
        written.copy_(written.gather(1, parents.unsqueeze(2).expand(-1, -1, self.length)))

    def select(self, rows: Tensor) -> None:
        """Keep some sentences of the batch."""
        self.layers = [KeysValues(past.keys[rows], past.values[rows]) for past in self.layers]
        self.ancestry = self.ancestry[rows]

    def _grow(self) -> None:
        """Twice the room: in all, no more is copied than was ever written."""
        self.layers = [
            KeysValues(*(torch.cat([tensor, torch.zeros_like(tensor)], dim=2) for tensor in past))
            for past in self.layers
        ]
        unwritten = self.slots[None, :, None].expand(self.ancestry.shape)
        self.ancestry = torch.cat([self.ancestry, unwritten], dim=2)
