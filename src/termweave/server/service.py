"""Everything the routes of a server share."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar, cast

from starlette.requests import ClientDisconnect, Request

from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.decoding.terminology import Terminology
from termweave.errors import StoreError
from termweave.server.access import Access, Caller
from termweave.server.backend import Backend, SearchSettings
from termweave.server.batching import Batcher
from termweave.server.database import Database
from termweave.server.document_store import DocumentStore
from termweave.server.documents import Documents, Work
from termweave.server.keys import KeyStore, PaceStore, Usage
from termweave.server.languages import Languages
from termweave.server.lines import LineTranslator
from termweave.server.markup import Markup
from termweave.server.observation import Metrics, log_unforeseen
from termweave.server.problems import QUOTA_EXCEEDED, Problem
from termweave.server.settings import Settings
from termweave.server.store import GlossaryStore
from termweave.server.terms import FirstOf, Planner
from termweave.server.translating import TextTranslator, Translated, Wanted
from termweave.server.workers import Workers

UNLIMITED = 1_000_000_000_000  # characters a month; what DeepL tells customers without a limit
_REMEMBERED_GLOSSARIES = 32
_WATCHED = 0.5  # seconds between two tellings of what was counted

Result = TypeVar("Result")


class Service:
    def __init__(self, backend: Backend, store: str | Path, settings: Settings) -> None:
        self.limits = settings.limits
        self.metrics = Metrics()
        self.languages = Languages(backend.directions)
        self.batcher = Batcher(backend, settings.gathering, self.metrics.count_batch)
        self.metrics.watch(self.batcher)
        self.backend = backend
        self.workers = Workers(settings.limits)
        self.texts = TextTranslator(backend, self.batcher, self.workers, settings.limits.sentences)
        # Keys are looked up with every request, and must not wait for a large glossary or document to be read.
        self._databases = (Database(store), Database(store), Database(store))
        self.glossaries = GlossaryStore(self._databases[0], settings.limits)
        self.keys = KeyStore(self._databases[1])
        self.usage = Usage(self._databases[1])
        self._paces = PaceStore(self._databases[1])
        self.documents = Documents(DocumentStore(self._databases[2], settings.limits), settings.limits)
        self.access = Access(self.keys, settings.limits.requests_per_minute)
        self._terminologies: OrderedDict[str, Terminology] = OrderedDict()
        self._terminologies_lock = threading.Lock()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Decoding starts before the block, and finishes what was accepted after it."""
        self.batcher.start()
        telling = asyncio.create_task(self._tell_the_store())
        try:
            yield
        finally:
            await asyncio.to_thread(self.documents.close)
            await asyncio.to_thread(self.batcher.close)
            telling.cancel()
            await asyncio.to_thread(self._safely, self.usage.flush, "usage")
            await asyncio.to_thread(self.workers.close)
            for database in self._databases:
                database.close()

    async def _tell_the_store(self) -> None:
        while True:
            await asyncio.sleep(_WATCHED)
            await asyncio.to_thread(self._safely, self.usage.flush, "usage")
            await asyncio.to_thread(self._safely, self._share_pace, "pace")
            await asyncio.to_thread(self._safely, self.documents.tell, "documents")

    def _share_pace(self) -> None:
        self.access.pace.share(self._paces)

    def _safely(self, work: Callable[[], None], what: str) -> None:
        """If the store does not work, what was to be told stays in memory, and is told when it works again."""
        try:
            work()
        except Exception as error:
            log_unforeseen(error, what)

    # For the routes

    async def identify(self, request: Request, given: str | None = None) -> Caller:
        """Who asks, or a problem. given: a key that came in the body instead of the header."""
        caller = await self.workers.keys(self.access.identify, request, given)
        request.state.key = caller.id
        return caller

    def terms(
        self, identifiers: Sequence[str], source: str, target: str, first: Sequence[GlossaryEntry] = ()
    ) -> Planner:
        """The terms of a request, then those of glossaries, an earlier one before a later one; then addresses and such.

        Blocks: glossaries are read from the store.
        """
        planners = [self._terminology(identifier, source, target) for identifier in identifiers]
        if first or not planners:
            planners.insert(0, _terminology(first, source, target))
        return FirstOf(planners) if len(planners) > 1 else planners[0]

    def _terminology(self, identifier: str, source: str, target: str) -> Terminology:
        """Kept until the entries change: building one takes longer than a translation."""
        version = self.glossaries.get(identifier).dictionary(source, target).version
        with self._terminologies_lock:
            if version in self._terminologies:
                self._terminologies.move_to_end(version)
                return self._terminologies[version]
        terminology = _terminology(self.glossaries.entries(identifier, source, target), source, target)
        with self._terminologies_lock:
            self._terminologies[version] = terminology
            while len(self._terminologies) > _REMEMBERED_GLOSSARIES:
                self._terminologies.popitem(last=False)
        return terminology

    @asynccontextmanager
    async def accepting(self, request: Request, caller: Caller, texts: Sequence[str]) -> AsyncIterator[None]:
        """Around the translation of all texts of a request: paid for together if it succeeds, and not at all if not."""
        self.batcher.require_room()
        if len(texts) > self.limits.texts:
            raise Problem(413, "Too many texts", f"at most {self.limits.texts} fit into one request")
        request.state.characters = characters = sum(map(len, texts))
        request.state.texts = len(texts)
        await self.workers.short(self._reserve, caller, characters)
        with self._reserved(caller, characters):
            yield

    async def translate(self, request: Request, wanted: Wanted) -> list[Translated]:
        """Translate what was accepted. Whoever leaves meanwhile gives the place in the queue back."""
        return await self._while_connected(request, self.texts.translate(wanted))

    async def translate_markup(self, request: Request, wanted: Wanted, markup: Markup) -> list[str]:
        """The same for texts with tags; all of them are on their way at once, so that they share batches."""
        loop = asyncio.get_running_loop()

        async def one(text: str) -> str:
            lines = LineTranslator(self.backend, self.batcher, wanted.settings, wanted.terms, loop)
            return await self.documents.in_thread(
                lines, lambda: markup.translate(text, lines, wanted.settings.direction)
            )

        async def every() -> list[str]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(text)) for text in wanted.texts]
            return [task.result() for task in tasks]

        try:
            return await self._while_connected(request, every())
        except ExceptionGroup as group:  # one of them is enough to say what is wrong
            raise group.exceptions[0] from None

    async def document_lines(self, caller: Caller, settings: SearchSettings, terms: Planner) -> LineTranslator:
        """What a document is translated by, or a problem if its key has nothing left.

        How many characters a document has is seen only on the way, so they are paid for as they are translated.
        """
        if await self.workers.short(self.usage.is_used_up, caller.id, caller.character_limit):
            raise _quota_exceeded()

        @contextmanager
        def spending(characters: int) -> Iterator[None]:
            try:
                self._reserve(caller, characters)
            except StoreError as error:  # documents wait until it works again, as they do for room in the queue
                log_unforeseen(error, "quota")
                raise Problem(503, "The store is not available", "The log of the server has more.", 1) from None
            with self._reserved(caller, characters):
                yield

        loop = asyncio.get_running_loop()
        return LineTranslator(self.backend, self.batcher, settings, terms, loop, is_patient=True, spending=spending)

    async def finished(self, request: Request, work: Work) -> None:
        """Wait for a document; if the client leaves, it is given up."""
        try:
            await self._while_connected(request, asyncio.wrap_future(work.finished))
        except ClientDisconnect:
            await self.workers.documents(self.documents.remove, work)
            raise

    def _reserve(self, caller: Caller, characters: int) -> None:
        if not self.usage.reserve(caller.id, characters, caller.character_limit):
            raise _quota_exceeded()

    @contextmanager
    def _reserved(self, caller: Caller, characters: int) -> Iterator[None]:
        """Reserved characters are spent if the block ends well, and the key has them back if not."""
        try:
            yield
        except BaseException:
            self.usage.release(caller.id, characters)
            raise
        self.usage.spend(caller.id, characters)
        self.metrics.characters.inc(characters)

    async def _while_connected(self, request: Request, work: Awaitable[Result]) -> Result:
        """Cancel the work if the client leaves. Its body is read already, so all that can still come is its leaving."""
        working = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(_left(request))
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                self.metrics.vanished.inc()
                raise ClientDisconnect
            return working.result()
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)


def _terminology(entries: Sequence[GlossaryEntry], source: str, target: str) -> Terminology:
    return Terminology(Glossary(tuple(entries), source, target), f"{source}-{target}")


def _quota_exceeded() -> Problem:
    return Problem(QUOTA_EXCEEDED, "Quota exceeded", "the characters of this key for this month are used up")


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def service_of(request: Request) -> Service:
    return cast(Service, request.app.state.service)
