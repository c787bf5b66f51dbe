from __future__ import annotations

import pytest

from termweave.config import StageConfig
from termweave.training.schedule import learning_rate


def test_the_rate_rises_falls_and_ends_near_zero():
    stage = StageConfig(steps=1000, learning_rate=1e-3, warmup=100, cooldown=0.3)
    rates = [learning_rate(stage, step) for step in range(1, 1001)]
    assert rates[49] == pytest.approx(0.5e-3)
    assert rates[99] == pytest.approx(1e-3) == max(rates)
    assert rates[399] == pytest.approx(0.5e-3)  # inverse square root: a quarter of the way back
    assert rates[849] == pytest.approx(1e-3 * (100 / 850) ** 0.5 * 151 / 300)
    assert 0 < rates[-1] < 2e-6
    assert rates[99:] == sorted(rates[99:], reverse=True)


def test_it_is_the_schedule_of_vaswani_without_cooldown():
    """d^-0.5 · min(step^-0.5, step · warmup^-1.5), with the peak this has at the end of the warm-up."""
    stage = StageConfig(steps=100_000, learning_rate=512**-0.5 * 4000**-0.5, warmup=4000, cooldown=0.0)
    for step in (1, 100, 4000, 4001, 50_000, 100_000):
        assert learning_rate(stage, step) == pytest.approx(512**-0.5 * min(step**-0.5, step * 4000**-1.5))
