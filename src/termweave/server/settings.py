"""What a server is told at its start: limits, and how requests are gathered into batches."""

from __future__ import annotations

from dataclasses import dataclass, field

MEBIBYTE = 2**20
MOST_GLOSSARIES = 5  # that one request may name


@dataclass(frozen=True)
class Limits:
    """The most one request, one glossary or one key may ask for."""

    body_bytes: int = MEBIBYTE  # of a request to translate
    glossary_bytes: int = 10 * MEBIBYTE  # of a request that brings a glossary, and of a glossary that is stored
    document_bytes: int = 10 * MEBIBYTE
    documents: int = 100  # that wait, are translated, or wait to be fetched; of all servers of a store together
    document_seconds: int = 3600  # that a translated document is kept
    document_silence: int = 30  # seconds after which a server that works on documents is taken for gone
    texts: int = 1000  # in one request
    sentences: int = 20_000  # of all its texts
    glossaries: int = 1000  # in the store
    glossary_name: int = 1024  # characters
    terms: int = 1000  # given inside one request
    beam: int = 32
    header_seconds: float = 10  # until the headers of a request have arrived
    body_seconds: float = 60  # from then on until its body has
    idle_seconds: int = 75  # that a connection waits for another request; longer than refused clients and proxies do
    unread_seconds: float = 60  # that a client may take nothing of its answer
    waiting_glossaries: int = 32  # requests with the content of one that wait; beyond that, the answer is 503 at once
    waiting_inspections: int = 16  # the same
    requests_per_minute: int = 600  # of one key; 0: as many as it likes


@dataclass(frozen=True)
class Gathering:
    """How requests of many clients become batches."""

    batch_tokens: int = 4096  # source subwords translated at once
    patience: float = 0.005  # seconds that a request waits for company
    queued_tokens: int = 200_000  # subwords that may wait; beyond that, the answer is 503 at once
    queued_requests: int = 1000


@dataclass(frozen=True)
class Settings:
    limits: Limits = field(default_factory=Limits)
    gathering: Gathering = field(default_factory=Gathering)
