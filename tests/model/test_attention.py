"""Attention while decoding: what can be seen."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from termweave import accelerators
from termweave.model.attention import Visible


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=3))
def test_places_of_visible_keys_are_counted_and_listed(rows):
    seen = torch.tensor(rows)[:, None, None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerators, "WITH_KERNELS", ("cpu",))
        patch.setattr(accelerators, "find_spec", lambda name: name)
        visible = Visible.of(seen, torch.float32)
    assert visible.places is not None
    for row, places in zip(rows, visible.places.tolist(), strict=True):
        expected = [place for place, is_seen in enumerate(row) if is_seen]
        assert places[: 1 + len(expected)] == [len(expected), *expected]
    assert torch.equal(visible.mask == 0, seen)
    assert torch.equal(visible.select(torch.tensor([0])).places, visible.places[:1])
    assert Visible.of(seen, torch.float64).places is None  # of no use to torch's own attention
