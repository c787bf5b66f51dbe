"""How far each constraint has been produced: what the output layer knows about a hypothesis beyond its state.

Every slot, that is every target token of a constraint, has one of four marks at each moment:

| mark    | meaning                                                                      |
|---------|------------------------------------------------------------------------------|
| `START` | the first token of a constraint that is not in the output yet                |
| `NEXT`  | the output ends with all tokens of the constraint that stand before this one |
| `LATER` | neither: a token in the middle of a constraint not (or no longer) begun      |
| `DONE`  | the whole constraint stands in the output                                    |

The marks depend on the tokens alone: training takes them from the whole reference at once, and search, which sees one
token of its own output at a time, from a small `Progress` it advances. A constraint given twice is done when it was
produced once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from termweave.accelerators import has_kernels

START, NEXT, LATER, DONE = range(4)
MARKS = 4
NOTHING = -1  # no token: what stands behind the end of an output
NEVER = 2**30  # a moment that does not come


@dataclass(frozen=True)
class Progress:
    """What hypotheses have produced of their constraints; (batch, hypotheses, slots) booleans each."""

    running: Tensor  # the output ends with the constraint's tokens up to and with this one
    done: Tensor  # the whole constraint stands in the output
    used: Tensor  # this token stands in the output, wherever

    def reorder(self, parents: Tensor) -> Progress:
        """Hypothesis i continues what was hypothesis parents[i]; parents: (batch, hypotheses)."""
        index = parents.unsqueeze(2).expand(-1, -1, self.done.shape[2])
        return Progress(self.running.gather(1, index), self.done.gather(1, index), self.used.gather(1, index))

    def select(self, rows: Tensor) -> Progress:
        """That of some sentences of the batch."""
        return Progress(*(part.index_select(0, rows) for part in (self.running, self.done, self.used)))


@dataclass(frozen=True)
class Slots:
    """The target tokens of the constraints of a batch; (batch, slots) each."""

    tokens: Tensor
    first: Tensor  # slot of the first token of the same constraint
    last: Tensor  # slot of its last token

    @staticmethod
    def of(tokens: Tensor, number: Tensor) -> Slots:
        """number: which constraint a slot belongs to, as in `ConstraintSide`."""
        slot = torch.arange(number.shape[1], device=number.device)
        same = number.unsqueeze(2) == number.unsqueeze(1)
        return Slots(tokens, torch.where(same, slot, len(slot)).amin(dim=2), torch.where(same, slot, 0).amax(dim=2))

    def select(self, rows: Tensor) -> Slots:
        return Slots(*(part.index_select(0, rows) for part in (self.tokens, self.first, self.last)))

    def marks_along(self, output: Tensor) -> Tensor:
        """(batch, length) → (batch, length, slots): the marks before each token of the output is produced."""
        return self._marks(output, torch.arange(output.shape[1], device=output.device))

    def marks_after(self, outputs: Tensor) -> Tensor:
        """(batch, hypotheses, length) → (batch, hypotheses, slots): the marks when these have been produced."""
        batch, hypotheses, length = outputs.shape
        repeated = self.select(torch.arange(batch, device=outputs.device).repeat_interleave(hypotheses))
        moment = torch.full((1,), length, device=outputs.device)
        return repeated._marks(outputs.reshape(batch * hypotheses, length), moment).view(batch, hypotheses, -1)

    def start(self, hypotheses: int) -> Progress:
        """Nothing has been produced."""
        batch, slots = self.tokens.shape
        nothing = torch.zeros(batch, hypotheses, slots, dtype=torch.bool, device=self.tokens.device)
        return Progress(nothing, nothing, nothing)

    def advance(self, progress: Progress, tokens: Tensor) -> Progress:
        """The progress after one more token of every hypothesis, (batch, hypotheses)."""
        here = tokens.unsqueeze(2) == self.tokens.unsqueeze(1)
        running = here & (self._before(progress) | self._leads().unsqueeze(1))
        done = progress.done | running.gather(2, self.last.unsqueeze(1).expand(running.shape))
        return Progress(running, done, progress.used | here)

    def follow(self, progress: Progress, parents: Tensor, tokens: Tensor) -> Progress:
        """The progress when hypothesis i continues what was hypothesis parents[i]; (batch, hypotheses) each."""
        if has_kernels(tokens.device):
            from termweave.model import copy_kernels

            return copy_kernels.advance(self, progress, parents, tokens)
        return self.advance(progress.reorder(parents), tokens)

    def after(self, outputs: Tensor) -> Progress:
        """The progress when (batch, hypotheses, length) tokens have been produced."""
        progress = self.start(outputs.shape[1])
        for tokens in outputs.unbind(dim=2):
            progress = self.advance(progress, tokens)
        return progress

    def marks(self, progress: Progress) -> Tensor:
        """(batch, hypotheses, slots): the same marks as `marks_after` gives for what led to this progress."""
        leads = self._leads().unsqueeze(1)
        marks = torch.where(leads, START, torch.where(self._before(progress) & ~leads, NEXT, LATER))
        return torch.where(progress.done, DONE, marks)

    def _leads(self) -> Tensor:
        """(batch, slots): is this the first slot of a constraint?"""
        return self.first == torch.arange(self.first.shape[1], device=self.first.device)

    @staticmethod
    def _before(progress: Progress) -> Tensor:
        """Does an occurrence run up to the slot before this one?"""
        return F.pad(progress.running[:, :, :-1], (1, 0))

    def _marks(self, output: Tensor, moments: Tensor) -> Tensor:
        """(rows, length) and (moments,) → (rows, moments, slots)."""
        rows, length = output.shape
        width = self.tokens.shape[1]
        place = torch.arange(width, device=output.device) - self.first  # inside the constraint
        begun = torch.arange(length + 1, device=output.device)[:, None]  # where an occurrence may begin
        padded = F.pad(output, (0, width + 1), value=NOTHING)
        seen = padded.gather(1, (begun + place[:, None]).flatten(1)).view(rows, length + 1, width)
        # An occurrence begun there runs through a slot if it has met no wrong token from the first slot up to it.
        wrong = (seen != self.tokens[:, None]).long()
        errors = wrong.cumsum(dim=2)
        runs = errors == (errors - wrong).gather(2, self.first[:, None].expand(errors.shape))
        whole = runs.gather(2, self.last[:, None].expand(runs.shape))
        done_at = torch.where(whole, begun + (self.last - self.first + 1)[:, None], NEVER).amin(dim=1)
        start = moments[None, :, None] - place[:, None]
        before = F.pad(runs[:, :, :-1], (1, 0)).gather(1, start.clamp(min=0))
        running = before & (start >= 0) & (place > 0)[:, None]
        marks = torch.where(running, NEXT, torch.where(place == 0, START, LATER)[:, None])
        return torch.where(moments[None, :, None] >= done_at[:, None], DONE, marks)
