"""Requests of many clients become batches, which one thread translates off the event loop.

1. A request is accepted if the queue has room; if not, it is refused at once and told when to come again.
2. The thread wakes, and waits a few milliseconds for company unless there is a full batch already.
3. A batch takes the settings of the request that waits longest, then one sentence of each request with these settings
   in turn, until it is full: a short request does not wait for the end of a long one.
4. Requests with sentences left go to the end of the queue, so that those with other settings get their turn.
5. An error concerns the request that caused it only: the requests of a failed batch are translated one by one.

A request that is cancelled gives its place in the queue back at once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from termweave.decoding.translator import Translation
from termweave.server.backend import Backend, SearchSettings, Sentence
from termweave.server.problems import Problem
from termweave.server.settings import Gathering

LONGEST_WAIT = 60.0  # seconds; what a refused client is told at most
FIRST_SPEED = 500.0  # tokens a second, until something has been measured

Take = tuple["_Waiting", int]  # a request and the index of one of its sentences


@dataclass(eq=False)
class _Waiting:
    """A request in the queue."""

    sentences: Sequence[Sentence]
    settings: SearchSettings
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[list[Translation]]
    results: list[Translation | None]
    next: int = 0  # the first sentence that is in no batch yet
    open: int = field(init=False)  # sentences without a result
    cancelled: bool = False

    def __post_init__(self) -> None:
        self.open = len(self.sentences)

    @property
    def rest(self) -> int:
        """Tokens that are in no batch yet."""
        return sum(sentence.tokens for sentence in self.sentences[self.next :])


@dataclass(frozen=True)
class BatchReport:
    """What a batch was, for those who count."""

    sentences: int
    tokens: int
    seconds: float


class Batcher:
    """`await submit(…)` from the event loop; `start` and `close` frame its life."""

    def __init__(
        self, backend: Backend, gathering: Gathering, report: Callable[[BatchReport], None] = lambda _: None
    ) -> None:
        self._backend = backend
        self._gathering = gathering
        self._report = report
        self._changed = threading.Condition()
        self._queue: deque[_Waiting] = deque()
        self._tokens = 0  # in the queue, in no batch yet
        self._speed = FIRST_SPEED
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="termweave-decoding", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Accept nothing more, finish what was accepted, and return when that is done. Blocks."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and not self._closing

    @property
    def queued_requests(self) -> int:
        return len(self._queue)

    @property
    def queued_tokens(self) -> int:
        return self._tokens

    def require_room(self) -> None:
        """Refuse what would be refused anyway before any work is put into it: a crowd is answered the faster."""
        with self._changed:
            if self._is_full(tokens=1):
                raise self._overloaded()

    async def submit(self, sentences: Sequence[Sentence], settings: SearchSettings) -> list[Translation]:
        """Translations, in order. Raises a `Problem` at once if there is no room, a `TermweaveError` from decoding."""
        if not sentences:
            return []
        loop = asyncio.get_running_loop()
        waiting = _Waiting(tuple(sentences), settings, loop, loop.create_future(), [None] * len(sentences))
        self._accept(waiting)
        try:
            return await waiting.future
        except asyncio.CancelledError:
            self._forget(waiting)
            raise

    def _accept(self, waiting: _Waiting) -> None:
        tokens = waiting.rest
        with self._changed:
            if self._closing:
                raise Problem(503, "The server is shutting down", "Try again in a moment.", retry_after=5)
            if self._is_full(tokens):
                raise self._overloaded()
            self._queue.append(waiting)
            self._tokens += tokens
            self._changed.notify_all()

    def _is_full(self, tokens: int) -> bool:
        if len(self._queue) >= self._gathering.queued_requests:
            return True
        # An empty queue takes any request, so that one larger than the queue is not refused for ever.
        return bool(self._tokens) and self._tokens + tokens > self._gathering.queued_tokens

    def _overloaded(self) -> Problem:
        wait = min(self._tokens / self._speed, LONGEST_WAIT)
        return Problem(503, "The server is overloaded", "Too many texts are waiting; try again later.", wait)

    def _forget(self, waiting: _Waiting) -> None:
        with self._changed:
            waiting.cancelled = True
            if waiting in self._queue:
                self._queue.remove(waiting)
                self._tokens -= waiting.rest
            self._changed.notify_all()

    # In the thread

    def _work(self) -> None:
        while True:
            batch = self._next_batch()
            if batch is None:
                return
            started = time.monotonic()
            self._translate(batch)
            self._measure(batch, time.monotonic() - started)

    def _next_batch(self) -> list[Take] | None:
        """The next sentences to translate; None when all is done and nothing more will come."""
        with self._changed:
            while True:
                while not self._queue:
                    if self._closing:
                        return None
                    self._changed.wait()
                deadline = time.monotonic() + self._gathering.patience
                while self._tokens < self._gathering.batch_tokens and not self._closing:
                    left = deadline - time.monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        break
                if self._queue:  # everybody may have left meanwhile
                    return self._fill()

    def _fill(self) -> list[Take]:
        settings = self._queue[0].settings
        sharing = deque(waiting for waiting in self._queue if waiting.settings == settings)
        others = [waiting for waiting in self._queue if waiting.settings != settings]
        batch: list[Take] = []
        room = self._gathering.batch_tokens
        while sharing and (not batch or room > 0):
            waiting = sharing.popleft()
            batch.append((waiting, waiting.next))
            room -= waiting.sentences[waiting.next].tokens
            self._tokens -= waiting.sentences[waiting.next].tokens
            waiting.next += 1
            if waiting.next < len(waiting.sentences):
                sharing.append(waiting)
        self._queue = deque([*others, *sharing])
        return batch

    def _translate(self, batch: list[Take]) -> None:
        try:
            self._translate_together(batch)
        except Exception as error:
            each = {id(waiting): waiting for waiting, _ in batch}
            if len(each) == 1:
                self._fail(batch[0][0], error)
                return
            for waiting in each.values():
                try:
                    self._translate_together([take for take in batch if take[0] is waiting])
                except Exception as own:
                    self._fail(waiting, own)

    def _translate_together(self, batch: list[Take]) -> None:
        wanted = [(waiting, index) for waiting, index in batch if not waiting.cancelled]
        if not wanted:
            return
        sentences = [waiting.sentences[index] for waiting, index in wanted]
        translations = self._backend.translate(sentences, wanted[0][0].settings)
        for (waiting, index), translation in zip(wanted, translations, strict=True):
            waiting.results[index] = translation
            waiting.open -= 1
            if not waiting.open:
                _answer(waiting, None)

    def _fail(self, waiting: _Waiting, error: Exception) -> None:
        self._forget(waiting)
        _answer(waiting, error)

    def _measure(self, batch: list[Take], seconds: float) -> None:
        tokens = sum(waiting.sentences[index].tokens for waiting, index in batch)
        self._speed = 0.8 * self._speed + 0.2 * tokens / max(seconds, 1e-6)
        self._report(BatchReport(len(batch), tokens, seconds))


def _answer(waiting: _Waiting, error: Exception | None) -> None:
    def deliver() -> None:
        if waiting.future.done():  # cancelled meanwhile
            return
        if error is not None:
            waiting.future.set_exception(error)
        else:
            waiting.future.set_result([result for result in waiting.results if result is not None])

    if not waiting.loop.is_closed():
        waiting.loop.call_soon_threadsafe(deliver)
