"""The cache that never moves against one that copies keys and values at every reordering."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from termweave.model import attention_loops
from termweave.model.attention import KeysValues
from termweave.model.cache import CHUNK, SelfAttentionCache

BATCH, BEAM, HEADS, WIDTH = 3, 4, 2, 5


def random_step(hypotheses: int, kind: torch.dtype = torch.float32) -> tuple[torch.Tensor, KeysValues]:
    queries, keys, values = torch.randn(3, BATCH, HEADS, hypotheses, WIDTH, dtype=kind)
    return queries, KeysValues(keys, values)


def attend(cache: SelfAttentionCache, queries: torch.Tensor, own: KeysValues) -> torch.Tensor:
    """(batch, hypotheses, d)"""
    cache.begin_step(queries.shape[2])
    attended = cache.attend(0, queries, own)
    cache.end_step()
    return attended


class Copying:
    """What the cache stands in for: (batch, heads, hypotheses, steps, width), gathered at every reordering."""

    def __init__(self, hypotheses: int, kind: torch.dtype) -> None:
        self.keys = self.values = torch.empty(BATCH, HEADS, hypotheses, 0, WIDTH, dtype=kind)

    def attend(self, queries: torch.Tensor, own: KeysValues) -> torch.Tensor:
        self.keys = torch.cat([self.keys, own.keys.unsqueeze(3)], dim=3)
        self.values = torch.cat([self.values, own.values.unsqueeze(3)], dim=3)
        attended = F.scaled_dot_product_attention(queries.unsqueeze(3), self.keys, self.values)
        return attended.squeeze(3).transpose(1, 2).flatten(2)

    def reorder(self, parents: torch.Tensor) -> None:
        index = parents[:, None, :, None, None].expand(-1, HEADS, -1, *self.keys.shape[3:])
        self.keys, self.values = self.keys.gather(2, index), self.values.gather(2, index)


# By compiled loops, which may read numbers of half the bits, and by torch.
@pytest.mark.parametrize(("kind", "rounded"), [(torch.float32, False), (torch.float32, True), (torch.float64, True)])
@pytest.mark.parametrize("first", [1, BEAM])
def test_attention_is_that_of_copied_keys(first, kind, rounded, monkeypatch):
    """More steps than there is room for at first, reordered at random; the first step with one hypothesis or all."""
    monkeypatch.setattr(attention_loops, "MOST_THREADS", torch.get_num_threads())
    torch.manual_seed(0)
    cache = SelfAttentionCache(1, BATCH, BEAM, HEADS, WIDTH, torch.zeros(1, dtype=kind), rounded=rounded)
    assert (cache.layers[0].keys.dtype == torch.bfloat16) == (rounded and kind == torch.float32)
    reference = Copying(first, kind)
    for step in range(CHUNK + 3):
        hypotheses = first if step == 0 else BEAM
        queries, own = random_step(hypotheses, kind)
        own = KeysValues(*(each.bfloat16().to(kind) for each in own)) if rounded else own  # what rounding leaves alone
        torch.testing.assert_close(attend(cache, queries, own), reference.attend(queries, own))
        parents = torch.randint(0, hypotheses, (BATCH, BEAM))
        cache.reorder(parents)
        reference.reorder(parents)
    assert cache.length == CHUNK + 3


def test_sentences_leave():
    torch.manual_seed(1)
    cache = SelfAttentionCache(1, BATCH, BEAM, HEADS, WIDTH, like=torch.zeros(1))
    for _ in range(3):
        attend(cache, *random_step(BEAM))
        cache.reorder(torch.randint(0, BEAM, (BATCH, BEAM)))
    queries, own = random_step(BEAM)
    rows = torch.tensor([2, 0])
    chosen = SelfAttentionCache(1, 2, BEAM, HEADS, WIDTH, like=torch.zeros(1))
    chosen.layers, chosen.ancestry, chosen.length = list(cache.layers), cache.ancestry.clone(), cache.length
    chosen.select(rows)
    expected = attend(cache, queries, own)[rows]
    torch.testing.assert_close(attend(chosen, queries[rows], KeysValues(own.keys[rows], own.values[rows])), expected)


def test_a_reordering_moves_no_key():
    cache = SelfAttentionCache(1, BATCH, BEAM, HEADS, WIDTH, like=torch.zeros(1))
    attend(cache, *random_step(BEAM))
    before = cache.layers[0].keys.clone()
    cache.reorder(torch.randint(0, BEAM, (BATCH, BEAM)))
    assert torch.equal(cache.layers[0].keys, before)
