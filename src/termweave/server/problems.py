"""What goes wrong with a request, as an answer: a status, what it is, and what to do about it."""

from __future__ import annotations

import errno
import math

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
QUOTA_EXCEEDED = 456  # DeepL's own status: the characters of this month are used up


class Problem(Exception):  # noqa: N818  (an answer rather than an error)
    """Ends a request with `status`. `message` says what is wrong, `detail` where and what to do about it."""

    def __init__(self, status: int, message: str, detail: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.detail = detail
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        if self.retry_after is None:
            return {}
        return {"Retry-After": str(max(1, math.ceil(self.retry_after)))}

    @property
    def body(self) -> dict[str, str]:
        """As DeepL's clients read it."""
        return {"message": self.message, "detail": self.detail}

    @property
    def sentence(self) -> str:
        """In one string, as LibreTranslate's clients read it."""
        return f"{self.message}: {self.detail}" if self.detail else self.message


def bad_request(message: str, detail: str = "") -> Problem:
    return Problem(400, message, detail)


def not_found(what: str, detail: str = "") -> Problem:
    return Problem(404, f"{what} not found", detail)


def full_disk(error: BaseException) -> Problem | None:
    """What an error of the system is to a client, if it means that nothing more can be written."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return Problem(503, "The disk of the server is full", "The log of the server has more; try again later.", 30)
    return None
