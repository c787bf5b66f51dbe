"""What constraints become, remembered: the same as computed anew, whatever came before, in bounds, for many threads."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from termweave.data.batches import constraints_from_ids
from termweave.model import known_terms
from termweave.model.known_terms import KnownTerms
from termweave.model.products import PackedLinear
from termweave.model.quantised import QuantisedLinear
from termweave.model.transformer import Transformer

FIRST, SECOND, THIRD = ((5, 6, 7), (8, 9)), ((10,), (11, 12, 13)), ((14, 15), (16,))
SENTENCES = [[FIRST, SECOND, FIRST], [], [THIRD, SECOND]]
SOURCE = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0], [7, 5, 3, 0]])


@pytest.fixture
def model(make_model) -> Transformer:
    made: Transformer = make_model(variant="copy")
    made.use_precision("int8")
    return made


def recalled(terms: KnownTerms, sentences):
    constraints = constraints_from_ids(sentences, 0)
    return replace(constraints, known=terms.recall(sentences, constraints))


def of_each(terms: KnownTerms, pairs) -> list[torch.Tensor]:
    """All that is known of some pairs, one by one."""
    known = recalled(terms, [[pair] for pair in pairs]).known
    slots = zip(known.source, known.target, pairs, strict=True)
    return [
        torch.cat([known.attention[source[: len(pair[0])]].flatten(), known.copied[target[: len(pair[1])]].flatten()])
        for source, target, pair in slots
    ]


@torch.inference_mode()
def test_what_is_known_is_what_would_be_computed(model):
    plain = model.encode(SOURCE, constraints_from_ids(SENTENCES, 0))
    terms = KnownTerms(model)
    for _ in range(2):  # computed, and then remembered
        known = model.encode(SOURCE, recalled(terms, SENTENCES))
        torch.testing.assert_close(known.states, plain.states, rtol=0.02, atol=0.02)
        filled = plain.output.filled
        assert torch.equal(known.output.filled, filled) and torch.equal(known.output.tokens, plain.output.tokens)
        for name in ("keys", "context"):
            own, other = getattr(known.output, name)[filled].float(), getattr(plain.output, name)[filled]
            torch.testing.assert_close(own, other, rtol=2e-3, atol=2e-3)
        visible = plain.mask[:, 0, 0]
        memories = (model.decoder_memory(encoded).layers for encoded in (known, plain))
        for own, other in zip(*memories, strict=True):
            for side in range(2):
                pair = (part[side].transpose(1, 2)[visible] for part in (own, other))
                torch.testing.assert_close(*pair, rtol=0.03, atol=0.03)


@pytest.mark.skipif(not PackedLinear.available(), reason="this build of torch has no oneDNN")
@torch.inference_mode()
def test_company_and_history_make_no_difference(make_model):
    model = make_model(variant="copy", dimension=256)  # sums long enough that their order matters
    model.use_precision("int8")
    others = [((20, 21, 22, 23), (24,)), *[((number, 5), (number, 6, 7)) for number in range(8, 33)]]
    pairs = [FIRST, SECOND, THIRD, *others]
    alone = [of_each(KnownTerms(model), [pair])[0] for pair in pairs]
    terms = KnownTerms(model)
    of_each(terms, [SECOND, *others[:3]])
    for expected, found in zip(alone, of_each(terms, pairs), strict=True):
        assert torch.equal(found, expected)


@torch.inference_mode()
def test_a_row_comes_out_the_same_in_any_company():
    torch.manual_seed(0)
    states, weight, bias = torch.randn(9, 32) * torch.rand(9, 1), torch.randn(24, 32), torch.randn(24)
    for layer, lowest, given in (
        (QuantisedLinear(weight, bias), -1, states),
        (QuantisedLinear(weight, None), 0, states.relu()),
    ):
        found = layer.by_row(given, lowest)
        assert all(torch.equal(layer.by_row(given[[row]], lowest)[0], found[row]) for row in range(9))
        expected = given @ layer.weight.T + (0 if layer.bias is None else bias)
        torch.testing.assert_close(found, expected, rtol=0, atol=0.2)
        assert (found - expected).abs().mean() < (layer(given) - expected).abs().mean()  # one scale for all is coarser


def room_for(model, *pairs) -> int:
    """Bytes of some terms together."""
    terms = KnownTerms(model)
    of_each(terms, list(pairs))
    return terms.held_bytes


@torch.inference_mode()
def test_there_is_a_bound_and_what_was_asked_for_last_stays(model, monkeypatch):
    monkeypatch.setattr(known_terms, "LARGE", 1)
    other, computed = ((20,), (21,)), []
    terms = KnownTerms(model, most_bytes=max(room_for(model, FIRST, SECOND), room_for(model, FIRST, other)))
    own = terms._computed
    monkeypatch.setattr(terms, "_computed", lambda pairs: computed.extend(pairs) or own(pairs))
    of_each(terms, [FIRST, SECOND])
    of_each(terms, [FIRST])
    of_each(terms, [other])  # pushes out SECOND, which was asked for before FIRST
    of_each(terms, [FIRST])
    assert computed == [FIRST, SECOND, other]
    of_each(terms, [SECOND])
    assert computed[3:] == [SECOND]
    terms.forget()
    assert terms.held_bytes == 0
    of_each(terms, [SECOND])
    assert computed[4:] == [SECOND]


@torch.inference_mode()
def test_what_was_met_is_known(model, monkeypatch):
    monkeypatch.setattr(known_terms, "TOGETHER", 1)
    terms, computed = KnownTerms(model), []
    own = terms._computed
    monkeypatch.setattr(terms, "_computed", lambda pairs: computed.extend(pairs) or own(pairs))
    terms.meet([FIRST, SECOND, FIRST])
    assert computed == [FIRST, SECOND]
    of_each(terms, [SECOND, FIRST])
    assert computed == [FIRST, SECOND]


@torch.inference_mode()
@pytest.mark.parametrize("large", [(tuple(range(5, 25)), (25,)), ((25,), tuple(range(5, 25)))])
def test_what_is_large_on_either_side_is_not_kept_and_pushes_nothing_out(model, monkeypatch, large):
    monkeypatch.setattr(known_terms, "LARGE", 2)
    terms = KnownTerms(model, most_bytes=2 * room_for(model, large) - 2)
    of_each(terms, [FIRST, large])
    assert list(terms._known) == [FIRST]
    assert terms.held_bytes == room_for(model, FIRST)


@torch.inference_mode()
def test_threads_share_it(model, monkeypatch):
    monkeypatch.setattr(known_terms, "LARGE", 1)
    pairs = [((number,), (number + 1, number)) for number in range(4, 34)]
    expected = dict(zip(pairs, of_each(KnownTerms(model), pairs), strict=True))
    most = room_for(model, *pairs[:12])
    terms = KnownTerms(model, most_bytes=most)

    @torch.inference_mode()
    def work(seed: int) -> bool:
        chosen = random.Random(seed).choices(pairs, k=10)
        found = of_each(terms, chosen)
        return all(torch.equal(own, expected[pair]) for own, pair in zip(found, chosen, strict=True))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(200)))
    held = np.frombuffer(b"".join([terms._free, *terms._known.values()]), known_terms.ROW)
    assert sorted(held) == list(range(terms._met))  # no row is lost, and none belongs to two terms
    assert terms.held_bytes == 2 * 32 * sum(map(len, terms._known.values())) // 4 <= most  # 32 numbers a row


@torch.inference_mode()
def test_what_comes_at_once_may_push_out_some_of_itself(model, monkeypatch):
    monkeypatch.setattr(known_terms, "LARGE", 1)
    pairs = [((number,) * (1 + number % 3), (number + 1,)) for number in range(4, 24)]
    expected = of_each(KnownTerms(model), pairs)
    terms = KnownTerms(model, most_bytes=room_for(model, *pairs[:3]))
    for _ in range(2):  # the second time, some are known
        assert all(map(torch.equal, of_each(terms, pairs), expected))
    last = [*terms._known]
    assert 0 < len(last) <= 3 and set(last) <= set(pairs)
    number = {pair: index for index, pair in enumerate(pairs)}
    assert all(map(torch.equal, of_each(terms, last), [expected[number[pair]] for pair in last]))


@pytest.mark.parametrize("settings, precision", [({"variant": "paper"}, "int8"), ({"variant": "copy"}, "float32")])
def test_other_models_compute_as_they_did(make_model, settings, precision):
    model = make_model(**settings)
    model.use_precision(precision)
    assert not KnownTerms.can_know(model)
