"""Batches of many requests, with a translator that waits until it is told to go on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from gated_backend import GatedBackend

from termweave.decoding.translator import Translation
from termweave.errors import ConstraintError
from termweave.server.backend import SearchSettings, Sentence
from termweave.server.batching import Batcher
from termweave.server.problems import Problem
from termweave.server.settings import Gathering

GERMAN, ENGLISH = SearchSettings("en-de"), SearchSettings("de-en")


def sentences(*texts: str, tokens: int = 1) -> list[Sentence]:
    return [Sentence(text, tokens=tokens) for text in texts]


def texts(translations: Sequence[Translation]) -> list[str]:
    return [translation.text for translation in translations]


async def entered(backend: GatedBackend) -> None:
    await asyncio.to_thread(backend.entered.acquire)


def run(coroutine, batcher: Batcher):
    batcher.start()
    try:
        return asyncio.run(coroutine)
    finally:
        batcher.close()


def test_requests_share_a_batch():
    backend = GatedBackend()
    batcher = Batcher(backend, Gathering(patience=0.2))

    async def clients():
        return await asyncio.gather(*(batcher.submit(sentences(f"a{n}"), ENGLISH) for n in range(5)))

    assert [texts(own) for own in run(clients(), batcher)] == [[f"{n}a"] for n in range(5)]
    assert len(backend.batches) == 1


def test_a_full_batch_does_not_wait_for_more():
    backend = GatedBackend()
    batcher = Batcher(backend, Gathering(batch_tokens=3, patience=3600))
    assert texts(run(batcher.submit(sentences("ab", "cd", "ef"), ENGLISH), batcher)) == ["ba", "dc", "fe"]


def test_requests_with_other_settings_have_batches_of_their_own():
    backend = GatedBackend()
    batcher = Batcher(backend, Gathering(patience=0.1))

    async def clients():
        await asyncio.gather(
            *(batcher.submit(sentences(f"{n}"), settings) for n in range(3) for settings in (GERMAN, ENGLISH))
        )

    run(clients(), batcher)
    assert sorted(backend.settings, key=str) == sorted([GERMAN, ENGLISH], key=str)
    assert all(sorted(batch) == ["0", "1", "2"] for batch in backend.batches)


def test_a_short_request_does_not_wait_for_the_end_of_a_long_one():
    backend = GatedBackend()
    batcher = Batcher(backend, Gathering(batch_tokens=4, patience=0.1))

    async def clients():
        long = asyncio.ensure_future(batcher.submit(sentences(*"abcdefghijkl"), ENGLISH))
        short = asyncio.ensure_future(batcher.submit(sentences("z"), ENGLISH))
        await short
        assert not long.done()
        return await long

    assert texts(run(clients(), batcher)) == list("abcdefghijkl")
    assert "z" in backend.batches[0]


def test_no_settings_starve():
    """A stream of requests one way leaves room for one the other way."""
    backend = GatedBackend(open_gate=False)
    batcher = Batcher(backend, Gathering(batch_tokens=2, patience=0))

    async def clients():
        first = [asyncio.ensure_future(batcher.submit(sentences("a", "b", "c", "d"), ENGLISH)) for _ in range(5)]
        await entered(backend)
        other = asyncio.ensure_future(batcher.submit(sentences("z"), GERMAN))
        await asyncio.sleep(0)
        backend.gate.set()
        await asyncio.gather(other, *first)

    run(clients(), batcher)
    # All requests with equal settings go behind it when one of them was served.
    assert backend.batches.index(["z"]) <= 2


@pytest.mark.parametrize(("text", "kind"), [("wrong", ConstraintError), ("broken", ZeroDivisionError)])
def test_an_error_concerns_its_own_request_only(text: str, kind: type[Exception]):
    batcher = Batcher(GatedBackend(), Gathering(patience=0.1))

    async def clients():
        requests = [batcher.submit(sentences(own), ENGLISH) for own in ("ab", text, "cd")]
        return await asyncio.gather(*requests, return_exceptions=True)

    first, second, third = run(clients(), batcher)
    assert texts(first) == ["ba"]
    assert isinstance(second, kind)
    assert texts(third) == ["dc"]
    assert batcher.queued_tokens == 0


def test_overload_is_told_at_once_and_nothing_accepted_is_lost():
    backend = GatedBackend(open_gate=False)
    batcher = Batcher(backend, Gathering(queued_tokens=10, patience=0))

    async def clients():
        at_work = asyncio.ensure_future(batcher.submit(sentences("ab"), ENGLISH))
        await entered(backend)
        waiting = [asyncio.ensure_future(batcher.submit(sentences("cd", tokens=5), ENGLISH)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await batcher.submit(sentences("ef"), ENGLISH)
        backend.gate.set()
        assert texts(await at_work) == ["ba"]
        assert [texts(await own) for own in waiting] == [["dc"], ["dc"]]
        return refused.value

    problem = run(clients(), batcher)
    assert problem.status == 503
    assert int(problem.headers["Retry-After"]) >= 1


def test_the_number_of_requests_is_bounded_too():
    backend = GatedBackend(open_gate=False)
    batcher = Batcher(backend, Gathering(queued_requests=1, patience=0))

    async def clients():
        accepted = [asyncio.ensure_future(batcher.submit(sentences("ab"), ENGLISH))]
        await entered(backend)
        accepted.append(asyncio.ensure_future(batcher.submit(sentences("ab"), ENGLISH)))
        await asyncio.sleep(0)
        with pytest.raises(Problem):
            await batcher.submit(sentences("ab"), ENGLISH)
        backend.gate.set()
        await asyncio.gather(*accepted)

    run(clients(), batcher)


def test_a_full_queue_is_told_before_any_work():
    backend = GatedBackend(open_gate=False)
    batcher = Batcher(backend, Gathering(queued_tokens=5, patience=0))

    async def clients():
        at_work = asyncio.ensure_future(batcher.submit(sentences("ab"), ENGLISH))
        await entered(backend)
        batcher.require_room()
        waiting = asyncio.ensure_future(batcher.submit(sentences("cd", tokens=5), ENGLISH))
        await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            batcher.require_room()
        backend.gate.set()
        await asyncio.gather(at_work, waiting)
        batcher.require_room()
        return refused.value

    assert run(clients(), batcher).status == 503


def test_a_request_larger_than_the_queue_is_taken_when_nothing_waits():
    batcher = Batcher(GatedBackend(), Gathering(queued_tokens=2))
    assert texts(run(batcher.submit(sentences("ab", tokens=100), ENGLISH), batcher)) == ["ba"]


def test_who_leaves_frees_the_place():
    backend = GatedBackend(open_gate=False)
    batcher = Batcher(backend, Gathering(queued_tokens=5, patience=0))

    async def clients():
        at_work = asyncio.ensure_future(batcher.submit(sentences("ab", "cd"), ENGLISH))
        await entered(backend)
        leaving = asyncio.ensure_future(batcher.submit(sentences("gone", tokens=5), ENGLISH))
        await asyncio.sleep(0)
        assert batcher.queued_tokens == 5
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert (batcher.queued_tokens, batcher.queued_requests) == (0, 0)
        staying = asyncio.ensure_future(batcher.submit(sentences("ef", tokens=5), ENGLISH))
        at_work.cancel()
        backend.gate.set()
        assert texts(await staying) == ["fe"]

    run(clients(), batcher)
    assert not any("gone" in batch for batch in backend.batches)


def test_closing_finishes_what_was_accepted():
    backend = GatedBackend(open_gate=False)
    batcher = Batcher(backend, Gathering(batch_tokens=1, patience=3600))

    async def clients():
        accepted = [asyncio.ensure_future(batcher.submit(sentences("ab", "cd"), ENGLISH)) for _ in range(3)]
        await entered(backend)
        closing = asyncio.ensure_future(asyncio.to_thread(batcher.close))
        while batcher.alive:
            await asyncio.sleep(0)
        with pytest.raises(Problem) as refused:
            await batcher.submit(sentences("ef"), ENGLISH)
        assert refused.value.status == 503
        backend.gate.set()
        assert [texts(own) for own in await asyncio.gather(*accepted)] == [["ba", "dc"]] * 3
        await closing

    run(clients(), batcher)


def test_many_clients_that_come_and_go_all_get_their_own():
    backend = GatedBackend()
    batcher = Batcher(backend, Gathering(batch_tokens=7, patience=0.0005))
    chance = random.Random(1)

    async def client(number: int) -> bool:
        await asyncio.sleep(chance.random() / 50)
        own = [f"{number}-{place}" for place in range(chance.randint(1, 6))]
        asking = asyncio.ensure_future(batcher.submit(sentences(*own), chance.choice([GERMAN, ENGLISH])))
        if chance.random() < 0.2:
            await asyncio.sleep(chance.random() / 500)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            return True
        return texts(await asking) == [text[::-1] for text in own]

    async def clients():
        return await asyncio.gather(*(client(number) for number in range(300)))

    assert all(run(clients(), batcher))
    assert (batcher.queued_tokens, batcher.queued_requests) == (0, 0)
