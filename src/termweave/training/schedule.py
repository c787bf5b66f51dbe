"""The learning rate: linear warm-up, inverse square root, and a linear fall to zero at the end of a stage."""

from __future__ import annotations

import math

from termweave.config import StageConfig


def learning_rate(stage: StageConfig, step: int) -> float:
    """The rate of step `step`, counted from 1.

    The schedule of Vaswani et al. (2017), written by its peak, times a factor that falls from 1 to 0 over the last
    `cooldown` share of the stage: ending at a rate near zero is worth several BLEU in short runs.
    """
    rate = stage.learning_rate * min(step / stage.warmup, math.sqrt(stage.warmup / step))
    cooldown = stage.cooldown * stage.steps
    left = stage.steps - step + 1
    return rate * min(left / cooldown, 1.0) if cooldown else rate
