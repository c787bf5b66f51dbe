"""The compiled loops against torch's attention."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.model import attention_loops
from termweave.model.attention import KeysValues, Visible, attend, attend_few, for_steps


@pytest.fixture(autouse=True, scope="module")
def enough_threads():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_loops, "MOST_THREADS", torch.get_num_threads())
        yield


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    hypotheses=st.integers(1, 5),
    width=st.integers(1, 33),
    keys=st.integers(1, 40),
    size=st.sampled_from([0.0, 1.0, 30.0]),
    rounded=st.booleans(),
    seed=st.integers(0, 99),
)
def test_what_is_visible_is_seen(batch, heads, hypotheses, width, keys, size, rounded, seed):
    """Projections as they come: parts of one product. Some keys are hidden, at least one is not; scores may be huge."""
    torch.manual_seed(seed)
    d = heads * width
    queries = (size * torch.randn(batch, hypotheses, 3 * d))[..., :d].view(batch, hypotheses, heads, width)
    both = torch.randn(batch, keys, 2 * d).chunk(2, dim=2)
    projected = KeysValues(*(part.view(batch, keys, heads, width).transpose(1, 2) for part in both))
    memory = for_steps(projected, attention_loops.kept_kind(queries, rounded))
    assert (memory.keys.dtype == torch.bfloat16) == rounded
    assert memory.keys.is_contiguous() and memory.values.is_contiguous()
    seen = torch.rand(batch, 1, 1, keys) < 0.6
    seen[..., torch.randint(keys, (1,))] = True
    visible = Visible.of(seen, torch.float32)
    assert visible.places is not None
    expected = attend(queries.transpose(1, 2).double(), KeysValues(*(own.double() for own in memory)), seen)
    found = attend_few(queries.transpose(1, 2), memory, visible)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


def test_only_single_precision_on_few_threads(monkeypatch):
    assert attention_loops.can_attend(torch.zeros(1))
    assert not attention_loops.can_attend(torch.zeros(1, dtype=torch.bfloat16))
    assert attention_loops.kept_kind(torch.zeros(1), rounded=True) == torch.bfloat16
    monkeypatch.setattr(attention_loops, "MOST_THREADS", 0)
    assert not attention_loops.can_attend(torch.zeros(1))
    assert attention_loops.kept_kind(torch.zeros(1), rounded=True) == torch.float32  # torch's attention wants it
