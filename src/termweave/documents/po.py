"""Messages of gettext (.po, and templates .pot).

Messages that have a translation keep it. Fuzzy ones are translated anew and are fuzzy no longer, for their old
translation belongs to another text. Contexts, flags, comments and obsolete messages stay. Of plural forms, the first is
the translation of the singular and all others that of the plural; where a language has just one, it is that of the
plural. A message with more than two forms is marked fuzzy, for someone has to look at it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polib

from termweave import __version__
from termweave.documents.directives import formats_of, has_same_directives
from termweave.documents.document import Options, Through, line_end_of, read_whole, with_line_ends
from termweave.documents.mnemonics import through_plain
from termweave.documents.placeholders import tagged_parts
from termweave.documents.segments import Segment
from termweave.errors import DataError

_TWO_FORMS = "nplurals=2; plural=(n != 1);"
_PLURALS = {
    **dict.fromkeys(("ja", "ko", "zh", "vi", "th", "id", "ms"), "nplurals=1; plural=0;"),
    **dict.fromkeys(("fr", "pt_BR", "tr"), "nplurals=2; plural=(n > 1);"),
    **dict.fromkeys(
        ("ru", "uk", "be", "sr", "hr", "bs"),
        "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);",
    ),
    "pl": "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);",
    **dict.fromkeys(("cs", "sk"), "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);"),
}
_FORMS = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;")
_UNSET = ("", "CHARSET", "YEAR-MO-DA HO:MI+ZONE")
_STRING_LINE = re.compile(r'(?:msg\w+(?:\[\d+\])?\s*+)?"(?:[^"\\]|\\.)*+"')
_WRITTEN_AS = {"utf-8", "utf8", "ascii", "us-ascii", "charset"}


@dataclass(frozen=True)
class _Message:
    """One text to translate, and where its translation goes: to forms of the plural, or (none) to the message."""

    entry: Any
    segment: Segment
    forms: tuple[int, ...] = ()


class Po:
    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.options = options
        text = read_whole(path)
        self._file = _parsed(path, text)
        self._line_end = line_end_of(text)
        self._forms = self._prepare_header()
        self._messages = list(self._find())
        self.total = len(self._messages)

    def _prepare_header(self) -> int:
        """What msgfmt asks of a header; the number of plural forms. A language asked for takes the place of another."""
        header = self._file.metadata
        for name, value in (
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=UTF-8"),
            ("Content-Transfer-Encoding", "8bit"),
        ):
            header.setdefault(name, value)
        header["Content-Type"] = header["Content-Type"].replace("CHARSET", "UTF-8")
        before = header.get("Language", "")
        language = (self.options.target_language or before).replace("-", "_")
        header["Language"] = language
        known = _FORMS.search(header.get("Plural-Forms", ""))
        if known is None or (language != before and int(known[1]) != _forms(language)):
            header["Plural-Forms"] = _rule(language)
            known = _FORMS.search(header["Plural-Forms"])
        number = int(known[1]) if known else 2
        if not 1 <= number <= 6:
            raise DataError(f"{self.path}: {number} plural forms in the header; languages have 1 to 6")
        return number

    def _find(self) -> Iterator[_Message]:
        for entry in self._file:
            if entry.obsolete or not entry.msgid:
                continue
            anew = self.options.retranslate or entry.fuzzy
            formats = formats_of(entry.flags)
            if not entry.msgid_plural:
                if anew or not entry.msgstr:
                    yield _Message(entry, _segment(entry.msgid, formats))
                continue
            forms = entry.msgstr_plural
            empty = [form for form in range(self._forms) if anew or not forms.get(form)]
            if self._forms > 1 and 0 in empty:
                yield _Message(entry, _segment(entry.msgid, formats), (0,))
            others = tuple(form for form in empty if form or self._forms == 1)
            if others:
                yield _Message(entry, _segment(entry.msgid_plural, formats), others)

    def translated(self, through: Through) -> Iterator[bytes]:
        segments = (message.segment for message in self._messages)
        if self.options.mnemonics:
            through = through_plain(through, self._file.metadata["Language"])
        left = []
        for message, segment in zip(self._messages, through(segments, _is_usable), strict=True):
            if segment is message.segment:  # it could not be translated, and stays to be
                left.append(message)
            else:
                self._put(message, segment)
        for message in left:
            if message.forms and not message.entry.fuzzy:  # its other forms may have a translation
                message.entry.flags.append("fuzzy")
        header = self._file.metadata
        if self._messages or header.get("PO-Revision-Date", "") in _UNSET:
            header["PO-Revision-Date"] = datetime.now(UTC).strftime("%Y-%m-%d %H:%M+0000")
            header["X-Generator"] = f"termweave {__version__}"
            self._file.metadata_is_fuzzy = False  # it is in a template, until its fields are filled in
        yield with_line_ends(_written(self._file).rstrip("\n") + "\n", self._line_end).encode()

    def _put(self, message: _Message, segment: Segment) -> None:
        text = _text(segment)
        entry = message.entry
        if entry.fuzzy:
            entry.flags = [flag for flag in entry.flags if flag != "fuzzy"]
            entry.previous_msgctxt = entry.previous_msgid = entry.previous_msgid_plural = None
        for form in message.forms:
            entry.msgstr_plural[form] = text
        if message.forms:
            for form in [form for form in entry.msgstr_plural if form >= self._forms]:
                del entry.msgstr_plural[form]
        else:
            entry.msgstr = text
        if (self.options.review or (message.forms and self._forms > 2)) and "fuzzy" not in entry.flags:
            entry.flags.append("fuzzy")


def _parsed(path: Path, text: str) -> Any:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith(("msg", '"')) and not _STRING_LINE.fullmatch(line.rstrip()):  # polib would guess
            raise DataError(f"{path}, line {number}: not a .po file: no whole string in double quotes")
    try:
        file = _from_file(path) if path.is_file() else _from_pipe(text)
    except (OSError, UnicodeError) as error:
        raise DataError(f"{path}: not a .po file: {_reason(error, path)}") from None
    except (ValueError, LookupError, AttributeError, TypeError) as error:  # polib trips over some damaged files
        raise DataError(f"{path}: not a .po file ({type(error).__name__}: {error})") from None
    match = re.search(r"charset=([\w-]+)", file.metadata.get("Content-Type", ""))
    if match and match[1].lower() not in _WRITTEN_AS:
        raise DataError(
            f"{path}: its header says charset={match[1]}; convert the file to UTF-8 first (msgconv -t UTF-8)"
        )
    for entry in file:
        if entry.msgid_plural and any(not isinstance(form, int) for form in entry.msgstr_plural):
            raise DataError(f"{path}, line {entry.linenum}: a plural form without a number")
    return file


def _written(file: Any) -> str:
    """The file as polib writes it, but for comments: those it would wrap anew."""
    messages = [*(entry for entry in file if not entry.obsolete), *file.obsolete_entries()]
    texts = []
    for entry in messages:
        comments = [f"# {line}" for line in entry.tcomment.split("\n") if entry.tcomment]
        comments += [f"#. {line}" for line in entry.comment.split("\n") if entry.comment and not entry.obsolete]
        entry.tcomment = entry.comment = ""
        texts.append("".join(line.rstrip() + "\n" for line in comments) + entry.__unicode__(file.wrapwidth))
    file.clear()  # what is left is the header
    return "\n".join([str(file), *texts])


def _from_file(path: Path) -> Any:
    return polib.pofile(str(path), encoding="utf-8-sig", wrapwidth=78)


def _from_pipe(text: str) -> Any:
    """From a file made of it: text that polib is given as such it cuts at more than line ends."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pipe.po"
        path.write_text(text, encoding="utf-8", newline="")
        return _from_file(path)


def _reason(error: Exception, path: Path) -> str:
    return str(error).replace(f"Syntax error in po file {path} ", "").strip("()") or type(error).__name__


def _segment(text: str, formats: tuple[str, ...]) -> Segment:
    return Segment(tuple(tagged_parts(text, formats)), weight=1, formats=formats)


def _text(segment: Segment) -> str:
    return "".join(part.shown or part.source or "" for part in segment.parts)


def _is_usable(original: Segment, translated: Segment) -> bool:
    """Programs, and msgfmt, refuse a format whose directives are others than those of its source."""
    return has_same_directives(_text(original), _text(translated), original.formats)


def _rule(language: str) -> str:
    """How a language counts, for those with rules of their own here; most others have a singular and a plural."""
    return _PLURALS.get(language) or _PLURALS.get(re.split("[_@]", language)[0], _TWO_FORMS)


def _forms(language: str) -> int:
    match = _FORMS.search(_rule(language))
    return int(match[1]) if match else 2
