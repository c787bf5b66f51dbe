"""Documents: uploaded, translated in the background, and kept for a while until they are fetched.

They lie in a temporary folder and are gone when the server stops, so whoever waits for one uploads it again.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from termweave.documents import Options, output_beside, translate_file
from termweave.documents.files import format_of
from termweave.errors import TermweaveError
from termweave.server.lines import LineTranslator, Stopped
from termweave.server.observation import log_unforeseen
from termweave.server.problems import Problem, bad_request, full_disk, not_found
from termweave.server.settings import Limits

State = Literal["queued", "translating", "done", "error"]
Result = TypeVar("Result")

_AT_ONCE = 4  # documents that are translated side by side; the rest waits
_TEXTS_AT_ONCE = 16  # texts with tags: short, and somebody waits for them


@dataclass
class Document:
    """One document. Changed by the thread that translates it, read by requests."""

    id: str
    secret: str
    owner: str  # id of the key it was uploaded with
    name: str  # of the translation, for the client
    source: Path
    output: Path
    options: Options
    lines: LineTranslator
    state: State = "queued"
    problem: Problem | None = None
    done: float = 0.0  # share
    started: float = 0.0
    finished: float = 0.0
    work: Future[None] = field(default_factory=Future)

    @property
    def seconds_left(self) -> int | None:
        """A guess from what is done."""
        if self.state != "translating" or not self.done:
            return None
        return max(1, round((time.monotonic() - self.started) * (1 - self.done) / self.done))


class Documents:
    def __init__(self, limits: Limits, count: Callable[[str, int], None]) -> None:
        """count: told whose characters were translated, and how many."""
        self._limits = limits
        self._count = count
        self._temporary = tempfile.TemporaryDirectory(prefix="termweave-documents-", ignore_cleanup_errors=True)
        self._folder = Path(self._temporary.name)
        self._threads = ThreadPoolExecutor(_AT_ONCE, "termweave-documents")
        self._text_threads = ThreadPoolExecutor(_TEXTS_AT_ONCE, "termweave-markup")
        self._documents: dict[str, Document] = {}
        self._running: set[LineTranslator] = set()
        self._accepting = threading.Lock()

    def close(self) -> None:
        for lines in [*self._running, *(own.lines for own in self._documents.values())]:
            lines.stop()
        for threads in (self._threads, self._text_threads):
            threads.shutdown(cancel_futures=True)
        self._temporary.cleanup()

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

    def accept(self, name: str, content: bytes, owner: str, options: Options, lines: LineTranslator) -> Document:
        """Take a document on. Blocks: it is written to the disk."""
        if len(content) > self._limits.document_bytes:
            raise Problem(413, "The document is too large", f"at most {self._limits.document_bytes:,} bytes are taken")
        if not content:
            raise bad_request("The document is empty", "send a file that holds something")
        plain = Path(name.replace("\\", "/")).name or "document"
        format_of(Path(plain))
        kind = Path(plain).suffix.lower()
        identifier = secrets.token_hex(16).upper()
        folder = self._folder / identifier
        folder.mkdir()
        # The name is the client's; on the disk it would only ask for trouble.
        translated = output_beside(Path(plain), options)
        source, output = folder / f"source{kind}", folder / f"output{kind}"
        secret = secrets.token_hex(32).upper()
        own = Document(identifier, secret, owner, translated.name, source, output, options, lines)
        try:
            source.write_bytes(content)
            with self._accepting:
                self._make_room()
                own.work = self._threads.submit(self._translate, own, plain)
                self._documents[identifier] = own
        except (Problem, OSError):
            self.remove(own)
            raise
        return own

    def find(self, identifier: str, owner: str | None, secret: str) -> Document:
        """secret: what the client was told at the upload. owner: whose it must be; None where the secret is enough."""
        self._forget_old()
        own = self._documents.get(identifier)
        known = own is not None and hmac.compare_digest(secret.encode(), own.secret.encode())
        if own is None or not known or owner not in (None, own.owner):
            raise not_found("Document", "it was never there, or was kept long enough; upload it again")
        return own

    def remove(self, own: Document) -> None:
        self._documents.pop(own.id, None)
        own.lines.stop()
        shutil.rmtree(own.source.parent, ignore_errors=True)

    def _translate(self, own: Document, name: str) -> None:
        own.state, own.started = "translating", time.monotonic()

        def progress(done: int, total: int) -> None:
            own.done = min(done / max(total, 1), 1.0)

        try:
            translate_file(own.source, own.output, own.lines, own.options, progress=progress)
            own.state = "done"
        except Problem as problem:
            own.problem = problem
        except Stopped:
            own.problem = Problem(503, "The server is shutting down", "Upload the document again.", 5)
        except TermweaveError as error:
            own.problem = bad_request("The document cannot be translated", str(error).replace(str(own.source), name))
        except Exception as error:
            log_unforeseen(error, own.id)
            unforeseen = Problem(500, "Internal error", f"The log of the server has more under {own.id}.")
            own.problem = full_disk(error) or unforeseen
        if own.problem is not None:
            own.state = "error"
        own.finished = time.monotonic()
        self._count(own.owner, own.lines.characters)

    def _make_room(self) -> None:
        self._forget_old()
        if len(self._documents) < self._limits.documents:
            return
        finished = sorted((own for own in self._documents.values() if own.finished), key=lambda own: own.finished)
        if not finished:
            raise Problem(503, "Too many documents are waiting", "Try again later.", 30)
        self.remove(finished[0])

    def _forget_old(self) -> None:
        now = time.monotonic()
        for own in list(self._documents.values()):
            if own.finished and now - own.finished > self._limits.document_seconds:
                self.remove(own)
