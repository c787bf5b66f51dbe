"""Who may ask: keys, the rule for servers without any, and how often a key may ask.

A server without keys serves the machine it runs on and nobody else. Three tricks are guarded against: a proxy on the
same machine that passes on the requests of others (most say so in their headers, or speak HTTP/1.0 as nginx has long
done by default; one that does neither cannot be told from a program here), a web page elsewhere that makes the browser
here send requests (the browser says so in `Origin`), and a name on the internet that resolves to this machine (then
`Host` is that name).
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from termweave.server.keys import ApiKey, KeyStore, PaceStore
from termweave.server.problems import Problem

SCHEMES = ("deepl-auth-key", "bearer")
_PROXY_HEADERS = ("x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via")
_PROXY_VERSIONS = ("0.9", "1.0")  # of HTTP; programs and browsers have spoken 1.1 for decades
_REMEMBERED_CALLERS = 10_000


@dataclass(frozen=True)
class Caller:
    """Whose request it is; `id` is empty for the machine itself, without a key."""

    id: str = ""
    key: ApiKey | None = None

    @property
    def character_limit(self) -> int | None:
        """A month; None: no limit."""
        return self.key.character_limit if self.key else None


class Access:
    def __init__(self, keys: KeyStore, requests_per_minute: int) -> None:
        self._keys = keys
        self.pace = Pace(requests_per_minute)

    def identify(self, request: HTTPConnection, given: str | None = None) -> Caller:
        """The caller, or a problem. given: a key that came in the body instead of the header."""
        secret = header_key(request) or given
        key = self._keys.find(secret) if secret else None
        if key is not None:
            self.pace.check(key.id)
            return Caller(key.id, key)
        if not self._keys.required:
            require_this_machine(request)
            return Caller()
        if not secret:
            raise Problem(403, "Authorization failed", "send a key: 'Authorization: DeepL-Auth-Key …'")
        raise Problem(403, "Authorization failed", "this key is not known, or was revoked")


def header_key(request: HTTPConnection) -> str | None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() in SCHEMES else None


def require_this_machine(request: HTTPConnection) -> None:
    """Refuse a request without a key unless it certainly comes from this machine, for its own sake."""
    remedy = "This server has no keys and serves its own machine only; make one with `termweave keys create NAME`."
    if request.client is None or not _is_loopback(request.client.host):
        raise Problem(403, "Authorization failed", remedy)
    if any(header in request.headers for header in _PROXY_HEADERS):
        raise Problem(403, "Authorization failed", f"The request came through a proxy. {remedy}")
    if request.scope["http_version"] in _PROXY_VERSIONS:
        raise Problem(403, "Authorization failed", f"The request is one of HTTP/1.0, as proxies send them. {remedy}")
    if not _is_local_name(_host_of("//" + request.headers.get("host", ""))):
        raise Problem(403, "Authorization failed", f"It is addressed by a name that is not this machine's. {remedy}")
    origin = request.headers.get("origin")
    if origin is not None and not _is_local_name(_host_of(origin)):
        raise Problem(403, "Authorization failed", f"A page from elsewhere sent the request. {remedy}")


def _host_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:  # such as http://[
        return None


def _is_local_name(name: str | None) -> bool:
    return name == "localhost" or (name is not None and _is_loopback(name))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Pace:
    """At most so many requests a minute for each key. Unused ones are saved up, for a minute at most.

    Checking must not wait for the store, so it is done by what this server knows; what other servers let pass comes
    to it with `share`.
    """

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._lock = threading.Lock()
        self._saved: dict[str, tuple[float, float]] = {}  # requests left, and when that was so
        self._spent: Counter[str] = Counter()  # requests the store does not know of

    def check(self, key: str, now: float | None = None) -> None:
        if not self._per_minute:
            return
        now = time.monotonic() if now is None else now
        with self._lock:
            left, then = self._saved.pop(key, (float(self._per_minute), now))
            left = min(left + (now - then) * self._per_minute / 60, float(self._per_minute))
            self._saved[key] = (max(left - 1, 0.0) if left >= 1 else left, now)
            self._spent[key] += left >= 1
            if len(self._saved) > _REMEMBERED_CALLERS:
                self._saved.pop(next(iter(self._saved)))
        if left < 1:
            wait = (1 - left) * 60 / self._per_minute
            raise Problem(429, "Too many requests", f"at most {self._per_minute} a minute for each key", wait)

    def share(self, store: PaceStore) -> None:
        """Tell the store what was spent here, and learn what is left after what was spent elsewhere."""
        with self._lock:
            spent, self._spent = +self._spent, Counter()
        if not spent:
            return
        try:
            left = store.spend(spent, self._per_minute)
        except BaseException:
            with self._lock:
                self._spent.update(spent)
            raise
        now = time.monotonic()
        with self._lock:  # what came meanwhile is told the next time
            self._saved.update({key: (saved - self._spent[key], now) for key, saved in left.items()})
