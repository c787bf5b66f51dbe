"""Documents: uploaded, translated in the background, and kept for a while until they are fetched.

A document lies in a temporary folder of the server that works on it; the store is told how far it is, and gets the
translation. If the server stops before, whoever waits for it uploads it again.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from termweave.documents import Options, output_beside, translate_file
from termweave.documents.files import format_of
from termweave.errors import StoreError, TermweaveError
from termweave.server.document_store import DocumentStore, State, Step, StoredDocument
from termweave.server.lines import LineTranslator, Stopped
from termweave.server.observation import log_unforeseen
from termweave.server.problems import Problem, bad_request, full_disk
from termweave.server.settings import Limits
from termweave.server.work_folder import WorkFolder

Result = TypeVar("Result")

_AT_ONCE = 4  # documents that are translated side by side; the rest waits
_TEXTS_AT_ONCE = 16  # texts with tags: short, and somebody waits for them
_TOLD = 1.0  # seconds between two tellings of how far documents are
_SWEPT = 60.0  # seconds between two sweeps of what was kept long enough


@dataclass
class Work:
    """A document this server translates. Changed by the thread that does so, read by requests."""

    id: str
    secret: str
    owner: str  # id of the key it was uploaded with
    source: Path
    output: Path
    options: Options
    lines: LineTranslator
    state: State = "queued"
    problem: Problem | None = None
    progress: float = 0.0  # the share that is done
    started: float = 0.0
    finished: Future[None] = field(default_factory=Future)

    @property
    def step(self) -> Step:
        return Step(self.id, self.state, round(self.progress, 3), self._seconds_left)

    @property
    def _seconds_left(self) -> int | None:
        """A guess from what is done."""
        if self.state != "translating" or not self.progress:
            return None
        return max(1, round((time.monotonic() - self.started) * (1 - self.progress) / self.progress))


class Documents:
    def __init__(self, store: DocumentStore, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._server = uuid.uuid4().hex
        self._folder = WorkFolder()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "termweave-documents")
        self._text_threads = ThreadPoolExecutor(_TEXTS_AT_ONCE, "termweave-markup")
        self._works: dict[str, Work] = {}  # that are not finished
        self._running: set[LineTranslator] = set()
        self._closing = threading.Event()
        self._told = self._swept = time.monotonic()

    def close(self) -> None:
        """Gives up what is not finished, and says so."""
        self._closing.set()
        for lines in [*self._running, *(work.lines for work in self._works.values())]:
            lines.stop()
        for threads in (self._threads, self._text_threads):
            threads.shutdown(cancel_futures=True)
        self._folder.close()
        if self._works:
            with suppress(StoreError):  # then they are lost, which is noticed as well
                self._store.give_up(self._server, _shutting_down())

    def tell(self) -> None:
        """Tell the store that this server is there, and how far it is; to be called again and again."""
        now = time.monotonic()
        if self._works and now - self._told >= _TOLD:
            self._store.tell(self._server, [work.step for work in list(self._works.values()) if work.started])
            self._told = now
        if now - self._swept >= _SWEPT:
            self._store.forget_old()
            self._swept = now

    async def in_thread(self, lines: LineTranslator, work: Callable[[], Result]) -> Result:
        """Something that calls for lines; if nobody waits for it any more, it stops."""
        self._running.add(lines)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._text_threads, work)
        except asyncio.CancelledError:
            lines.stop()
            raise
        finally:
            self._running.discard(lines)

    def accept(self, name: str, content: bytes, owner: str, options: Options, lines: LineTranslator) -> Work:
        """Take a document on. Blocks: it is written to the disk and told to the store."""
        if len(content) > self._limits.document_bytes:
            raise Problem(413, "The document is too large", f"at most {self._limits.document_bytes:,} bytes are taken")
        if not content:
            raise bad_request("The document is empty", "send a file that holds something")
        plain = Path(name.replace("\\", "/")).name or "document"
        format_of(Path(plain))
        kind = Path(plain).suffix.lower()
        identifier = secrets.token_hex(16).upper()
        folder = self._folder.path / identifier
        folder.mkdir()
        # The name is the client's; on the disk it would only ask for trouble.
        translated = output_beside(Path(plain), options).name.replace("\0", "")  # which cannot be stored
        source, output = folder / f"source{kind}", folder / f"output{kind}"
        work = Work(identifier, secrets.token_hex(32).upper(), owner, source, output, options, lines)
        try:
            source.write_bytes(content)
            self._store.add(identifier, work.secret, owner, translated, self._server)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._works[identifier] = work
        work.finished = self._threads.submit(self._translate, work, plain)
        return work

    def find(self, identifier: str, owner: str | None, secret: str) -> StoredDocument:
        """Of any server. Blocks, as do the two below."""
        return self._store.find(identifier, owner, secret)

    def content(self, own: StoredDocument) -> bytes:
        return self._store.content(own.id)

    def remove(self, work: Work) -> None:
        work.lines.stop()
        self._store.remove(work.id)

    def _translate(self, work: Work, name: str) -> None:
        try:
            outcome = self._outcome(work, name)
            if isinstance(outcome, Problem):
                work.problem = outcome
            self._finish(work, outcome)
        finally:
            shutil.rmtree(work.source.parent, ignore_errors=True)

    def _outcome(self, work: Work, name: str) -> bytes | Problem:
        def progress(done: int, total: int) -> None:
            work.progress = min(done / max(total, 1), 1.0)

        try:
            work.state, work.started = "translating", time.monotonic()
            with suppress(StoreError):  # the next telling does as well
                self._store.tell(self._server, [work.step])
            translate_file(
                work.source, work.output, work.lines, work.options, progress=progress, terms=work.lines.terms
            )
            return work.output.read_bytes()
        except Problem as problem:
            return problem
        except Stopped:
            return _shutting_down()
        except TermweaveError as error:
            return bad_request("The document cannot be translated", str(error).replace(str(work.source), name))
        except Exception as error:
            log_unforeseen(error, work.id)
            unforeseen = Problem(500, "Internal error", f"The log of the server has more under {work.id}.")
            return full_disk(error) or unforeseen

    def _finish(self, work: Work, outcome: bytes | Problem) -> None:
        """Hand it to the store; if that is not available, again and again: the work is done and must not be lost."""
        while True:
            try:
                self._store.finish(work.id, work.lines.characters, outcome)
                self._works.pop(work.id, None)
                return
            except StoreError as error:
                log_unforeseen(error, work.id)
            if self._closing.wait(_TOLD):
                work.problem = _shutting_down()
                return


def _shutting_down() -> Problem:
    return Problem(503, "The server is shutting down", "Upload the document again.", 5)
