"""The stream of training batches on a small corpus in memory.

Ids are chosen so that mistakes show: within a sentence no id stands twice, and source and target share none. So a
token's place in its sentence is known from its id alone.
"""

from __future__ import annotations

import random
import threading
import time
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from termweave.config import SamplingConfig
from termweave.constraints.phrases import PHRASE
from termweave.data.batches import SENTENCE_MULTIPLE, Batch
from termweave.data.corpus import DirectionData
from termweave.data.stream import BatchStream, Weighting, plan_epoch
from termweave.errors import DataError
from termweave.storage import RaggedArray

SPACE, TAG = 4, 5
SOURCE_IDS, TARGET_IDS = range(10, 110), range(110, 210)
ALPHA, BETA = 3.0, 0.5


class Vocabulary:
    """What the stream asks of `Subwords`; ids that end in 7 do not begin a word."""

    pad, bos, eos, size, lone_space = 0, 2, 3, 210, SPACE

    def starts_word(self, ids):
        return np.asarray(ids) % 10 != 7


def direction(sentences: int = 60, seed: int = 1, tag: int | None = None, longest: int = 30) -> DirectionData:
    chance = random.Random(seed)
    source, target, phrases = [], [], []
    for _ in range(sentences):
        source.append(chance.sample(SOURCE_IDS, chance.randint(1, longest)))
        target.append(chance.sample(TARGET_IDS, chance.randint(1, longest)))
        phrases.append([phrase(len(source[-1]), len(target[-1]), chance) for _ in range(chance.randint(0, 12))])
    return DirectionData(
        "de-en",
        RaggedArray.from_rows(source, np.uint16),
        RaggedArray.from_rows(target, np.uint16),
        RaggedArray.from_rows(phrases, PHRASE),
        tag,
    )


def phrase(source_length: int, target_length: int, chance: random.Random) -> tuple[int, ...]:
    source_tokens = chance.randint(1, min(4, source_length))
    target_tokens = chance.randint(1, min(4, target_length))
    source_start = chance.randint(0, source_length - source_tokens)
    target_start = chance.randint(0, target_length - target_tokens)
    return source_start, target_start, source_tokens, target_tokens, chance.randint(1, 3), 0


def stream(
    *directions: DirectionData,
    constraints: bool = True,
    seed: int = 1,
    tokens: int = 256,
    replace: bool = False,
    **sampling: float,
):
    return BatchStream(
        directions or [direction()],
        Vocabulary(),
        batch_tokens=tokens,
        seed=seed,
        sampling=SamplingConfig(**sampling),
        weighting=Weighting(ALPHA, BETA, constraints, replace),
    )


def first_epoch(batches: BatchStream) -> list[tuple[Batch, np.ndarray, DirectionData]]:
    """Every batch of epoch 0, with the corpus rows in it."""
    plan = plan_epoch(batches.directions, batches.batch_tokens, batches.seed, 0)
    return [(batches.build(planned, 0), planned.rows, batches.directions[planned.direction]) for planned in plan]


def same(first: Batch, second: Batch) -> bool:
    tensors = ("source", "target_input", "target", "weights")
    equal = all(torch.equal(getattr(first, name), getattr(second, name)) for name in tensors)
    if first.constraints is None or second.constraints is None:
        return equal and first.constraints is second.constraints
    return equal and torch.equal(first.constraints.target_tokens, second.constraints.target_tokens)


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=60),
    batch_tokens=st.integers(64, 512),
    epoch=st.integers(0, 3),
)
def test_an_epoch_covers_every_sentence_once_within_the_budget(lengths, batch_tokens, epoch):
    corpus = DirectionData(
        "de-en",
        RaggedArray.from_rows([[9] * source for source, _ in lengths], np.uint16),
        RaggedArray.from_rows([[9] * target for _, target in lengths], np.uint16),
        None,
        TAG,
    )
    plan = plan_epoch([corpus, corpus], batch_tokens, 1, epoch)
    for index in (0, 1):
        rows = [row for planned in plan if planned.direction == index for row in planned.rows.tolist()]
        assert sorted(rows) == list(range(len(lengths)))
    for planned in plan:
        longest = max(max(lengths[row][0] + 2, lengths[row][1] + 1) for row in planned.rows)
        width = -(-longest // SENTENCE_MULTIPLE) * SENTENCE_MULTIPLE
        assert len(planned.rows) * width <= batch_tokens or len(planned.rows) == 1


def test_batches_are_as_full_as_they_may_be_and_hardly_padded():
    chance = np.random.default_rng(0)
    lengths = chance.integers(1, 60, (6000, 2))
    lengths[:, 1] = (lengths[:, 0] * chance.uniform(0.7, 1.4, len(lengths))).astype(int) + 1
    sides = [RaggedArray.from_rows([[9] * int(length) for length in column], np.uint16) for column in lengths.T]
    corpus = DirectionData("de-en", sides[0], sides[1], None, None)
    widths = lengths + 1  # with the end mark
    widths += widths % SENTENCE_MULTIPLE
    plan = plan_epoch([corpus], 4096, 1, 0)
    places = sum(len(own.rows) * int(widths[own.rows].max(axis=0).sum()) for own in plan)
    assert (lengths + 1).sum() / places > 0.9
    full = [len(own.rows) * int(widths[own.rows].max()) for own in plan]
    # Eight sentences more would mostly be too many; the next one may be wider than all of these.
    room = [4096 - own <= 9 * int(widths[each.rows].max()) for own, each in zip(full, plan, strict=True)]
    assert sum(room) > 0.8 * len(plan)


def test_built_batches_keep_to_the_budget_and_to_even_widths():
    for batch, rows, _ in first_epoch(stream(direction(tag=TAG), tokens=300)):
        for tensor in (batch.source, batch.target):
            assert tensor.shape[0] == len(rows)
            assert tensor.numel() <= 300 or len(rows) == 1
            assert tensor.shape[1] % SENTENCE_MULTIPLE == 0
        assert batch.target.shape == batch.target_input.shape == batch.weights.shape


@pytest.mark.parametrize("tag", [None, TAG])
def test_rows_hold_the_sentences_with_their_marks(tag):
    for batch, rows, corpus in first_epoch(stream(direction(tag=tag))):
        for index, row in enumerate(rows):
            source, target = corpus.source[row].tolist(), corpus.target[row].tolist()
            lead = [] if tag is None else [tag]
            assert unpadded(batch.source[index]) == [*lead, *source, Vocabulary.eos]
            assert unpadded(batch.target[index]) == [*target, Vocabulary.eos]
            assert batch.target_input[index].tolist()[: len(target) + 1] == [Vocabulary.bos, *target]
            assert not batch.target_input[index, len(target) + 1 :].any()


def unpadded(row: torch.Tensor) -> list[int]:
    ids = row.tolist()
    while ids and ids[-1] == Vocabulary.pad:
        ids.pop()
    return ids


def constraints_of(batch: Batch, index: int) -> list[tuple[list[int], list[int]]]:
    """(source ids, target ids) of each constraint of a sentence, read back from the tensors."""
    assert batch.constraints is not None
    sides = []
    for side in (batch.constraints.source, batch.constraints.target):
        width = side.number.shape[1]
        phrases: dict[int, list[int]] = {}
        for token, home in zip(side.ids.tolist(), side.home.tolist(), strict=True):
            if home // width == index:
                phrases.setdefault(int(side.number.flatten()[home]), []).append(token)
        sides.append(phrases)
    assert sides[0].keys() == sides[1].keys()
    return [(sides[0][number], sides[1][number]) for number in sorted(sides[0])]


def allowed_pairs(corpus: DirectionData, row: int) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    assert corpus.phrases is not None
    source, target = corpus.source[row].tolist(), corpus.target[row].tolist()
    return {
        (tuple(source[s : s + source_tokens]), tuple(target[t : t + target_tokens]))
        for s, t, source_tokens, target_tokens, _, _ in corpus.phrases[row].tolist()
    }


def contains(sentence: list[int], phrase: list[int]) -> bool:
    return any(sentence[start : start + len(phrase)] == phrase for start in range(len(sentence)))


def test_constraints_are_phrase_pairs_of_their_own_sentence():
    seen = set()
    for batch, rows, corpus in first_epoch(stream(empty_share=0.2)):
        for index, row in enumerate(rows):
            found = constraints_of(batch, index)
            assert {(tuple(source), tuple(target)) for source, target in found} <= allowed_pairs(corpus, row)
            assert all(contains(unpadded(batch.target[index]), target) for _, target in found)
            seen.add(len(found))
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize("code_switch", [0.0, 0.5])
def test_weights_are_alpha_inside_constraints_and_beta_elsewhere(code_switch):
    weights = set()
    for batch, rows, _ in first_epoch(stream(code_switch=code_switch)):
        for index in range(len(rows)):
            inside = {token for _, target in constraints_of(batch, index) for token in target} - {SPACE}
            for token, before, weight in zip(
                batch.target[index].tolist(),
                [0, *batch.target[index].tolist()[:-1]],
                batch.weights[index].tolist(),
                strict=True,
            ):
                if token == SPACE:  # put before a switched phrase, so inside as well
                    assert weight == ALPHA
                elif token == Vocabulary.pad:
                    assert weight == 0
                else:
                    assert weight == (ALPHA if token in inside else BETA), (token, before)
                weights.add(weight)
        real = (batch.target != Vocabulary.pad).sum()
        assert batch.tokens == real
        assert batch.weight == pytest.approx(float(batch.weights.sum()))
    assert weights == {0, ALPHA, BETA}


def test_code_switching_changes_constraint_and_reference_alike():
    switched = kept = spaced = 0
    for batch, rows, corpus in first_epoch(stream(code_switch=0.5, empty_share=0.0)):
        for index, row in enumerate(rows):
            reference = unpadded(batch.target[index])
            originals = allowed_pairs(corpus, row)
            for source, target in constraints_of(batch, index):
                assert contains(reference, target)
                if (tuple(source), tuple(target)) in originals:
                    kept += 1
                else:
                    assert target in (source, [SPACE, *source])
                    spaced += target[0] == SPACE
                    switched += 1
    assert switched > 20
    assert kept > 20
    assert spaced > 0


@pytest.mark.parametrize("code_switch", [0.0, 0.5])
def test_constraints_stand_in_the_source_in_the_place_of_what_they_translate(code_switch):
    """The references are those without replacing; the sources are put together here, phrase by phrase."""
    plain, replaced = stream(code_switch=code_switch), stream(code_switch=code_switch, replace=True)
    changed = spaced = 0
    for (before, rows, corpus), (after, _, _) in zip(first_epoch(plain), first_epoch(replaced), strict=True):
        assert torch.equal(before.target, after.target)
        assert torch.equal(before.weights, after.weights)
        for index, row in enumerate(rows):
            expected = corpus.source[row].tolist()
            for source, target in constraints_of(before, index):
                start = next(i for i in range(len(expected)) if expected[i : i + len(source)] == source)
                glued = source[0] % 10 != 7 and target[0] % 10 == 7
                expected[start : start + len(source)] = [SPACE] * glued + target
                changed += source != target
                spaced += glued
            assert unpadded(after.source[index]) == [*expected, Vocabulary.eos]
            for own, target in constraints_of(after, index):
                assert own in (target, [SPACE, *target])
    assert changed > 20
    assert spaced > 0


def test_the_same_seed_gives_the_same_batches_from_any_position():
    batches = list(islice(stream().batches(0), 30))
    again = list(islice(stream().batches(0), 30))
    resumed = list(islice(stream().batches(11), 19))
    assert all(map(same, batches, again))
    assert all(map(same, batches[11:], resumed))
    other = list(islice(stream(seed=2).batches(0), 30))
    assert not all(
        first.source.shape == second.source.shape and same(first, second)
        for first, second in zip(batches, other, strict=True)
    )


def test_strided_streams_share_the_whole():
    whole = list(islice(stream().planned(0), 40))
    parts = [list(islice(stream().planned(rank, stride=2), 20)) for rank in (0, 1)]
    interleaved = [planned for pair in zip(*parts, strict=True) for planned in pair]
    for (epoch, expected), (part_epoch, part) in zip(whole, interleaved, strict=True):
        assert (epoch, expected.direction, expected.rows.tolist()) == (part_epoch, part.direction, part.rows.tolist())
    assert whole[-1][0] > 0  # the epoch's end was crossed


def test_every_epoch_has_its_own_order_and_constraints():
    batches = stream()
    epochs: dict[int, list[list[int]]] = {}
    for epoch, planned in batches.planned(0):
        if epoch > 1:
            break
        epochs.setdefault(epoch, []).append(planned.rows.tolist())
    assert epochs[0] != epochs[1]
    assert sorted(row for rows in epochs[0] for row in rows) == sorted(row for rows in epochs[1] for row in rows)
    planned = plan_epoch(batches.directions, 256, 1, 0)[0]
    assert not same(batches.build(planned, 0), batches.build(planned, 1))


def test_what_a_sentence_gets_does_not_depend_on_its_batch():
    def drawn(tokens: int) -> dict[int, list[tuple[list[int], list[int]]]]:
        return {
            int(row): constraints_of(batch, index)
            for batch, rows, _ in first_epoch(stream(tokens=tokens))
            for index, row in enumerate(rows)
        }

    assert drawn(128) == drawn(600)


def test_stage_one_has_no_constraints():
    without_phrases = DirectionData("de-en", direction().source, direction().target, None, None)
    for batch, _, _ in first_epoch(stream(without_phrases, constraints=False)):
        assert batch.constraints is None
        assert set(batch.weights.unique().tolist()) <= {0.0, BETA}


def test_an_empty_share_of_one_leaves_no_constraint():
    for batch, rows, _ in first_epoch(stream(empty_share=1.0)):
        assert batch.constraints is not None
        assert not batch.constraints.target.number.any()
        assert batch.constraints.target_tokens.shape[0] == len(rows)


def test_a_corpus_that_cannot_be_used_is_refused():
    nothing = DirectionData("de-en", *(RaggedArray.from_rows([], np.uint16) for _ in range(2)), None, None)
    with pytest.raises(DataError, match="empty"):
        stream(nothing, constraints=False)
    with pytest.raises(DataError, match="no phrase pairs yet; run `termweave prepare`"):
        stream(DirectionData("de-en", direction().source, direction().target, None, None))


def test_an_error_while_building_reaches_the_reader(monkeypatch):
    batches = stream()
    monkeypatch.setattr(batches, "build", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        next(batches.batches(0))


@pytest.mark.parametrize("fails", [False, True])
def test_closing_ends_the_thread(monkeypatch, fails):
    """Whether it waits for room for a batch, or for room for an error."""
    batches = stream()
    build, built = batches.build, []

    def count(*arguments):
        built.append(arguments)
        if fails and len(built) > 2:
            raise ZeroDivisionError
        return build(*arguments)

    monkeypatch.setattr(batches, "build", count)
    before = set(threading.enumerate())
    feed = batches.batches(0, ahead=1)
    next(feed)
    while len(built) < 3:  # one taken, one in the queue, and one in hand
        time.sleep(0.001)
    feed.close()
    assert set(threading.enumerate()) <= before
