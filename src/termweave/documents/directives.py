"""Directives of format strings, such as `%-10s` and `{1:>{2}}`. What is one, the language of the program decides.

A message whose flags say that it is a format must have the directives of its source, or the program breaks that prints
it. So not only they count: a sign that may begin one, and does not, is found by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

_WIDTH = r"(?:\d++|\*(?:\d++\$)?)?"
_PERCENT = rf"""
    %%
  | %\d++%                                          # %1%
  | %\{{[^{{}}\s]*+\}}                              # %{{name}}
  | %(?:\([^()]*+\)|<(?!PRI)\w++>|\d++\$)?          # %(name)s %<name>d %1$d
    (?:[-+\#0\ ,']|'[^A-Za-z]){{0,6}}{_WIDTH}(?:\.{_WIDTH})?
    (?:<PRI\w++>|(?:hh?|ll?|[qjzLtw]|I(?:64|32))?[A-Za-z@])
  | %
"""
_BRACES = r"\{\{[^{}\n]++\}\} | \{\{ | \}\} | \{(?:[^{}]|\{[^{}]*+\})*+\} | [{}]"
_NUMBERED = r"%L?(?:\d{1,2}|n(?![A-Za-z]))"
_DOLLAR = r"\$(?:\w++|\{[^{}\s]*+\})"
_TILDE = r"~[-+\d,:@'\#vV]*+[^\s\w] | ~[-+\d,:@'\#vV]*+[A-Za-z] | ~"
_BY_LANGUAGE = {
    **dict.fromkeys(("python-brace", "perl-brace", "csharp", "java", "c++", "rust"), _BRACES),
    **dict.fromkeys(("qt", "qt-plural", "kde", "kde-kuit", "ycp"), _NUMBERED),
    **dict.fromkeys(("lisp", "scheme"), _TILDE),
    "sh": _DOLLAR,
}
_QUOTED = re.compile(r"''|'[^']*+(?:'|\Z)")  # Java: braces between apostrophes are text
_IN_ORDER = re.compile(r"(?<!%)%(?:(?!L\d)[^(%\d{<]|<PRI|\d++[^$\d%])|\{[}:!]|\A~")


def formats_of(flags: Sequence[str]) -> tuple[str, ...]:
    """The languages that the flags of a message name: `c-format` is c."""
    names = (flag.removesuffix("-format").removeprefix("possible-") for flag in flags if flag.endswith("-format"))
    return tuple(name for name in names if not name.startswith("no-"))


def directive_pattern(formats: Sequence[str]) -> str:
    """A verbose pattern for the directives of some languages; most of them use the percent sign."""
    return "|".join(dict.fromkeys(_BY_LANGUAGE.get(name, _PERCENT) for name in formats))


def has_same_directives(source: str, translation: str, formats: Sequence[str]) -> bool:
    """Are the directives the same ones, and those that take whichever value comes next in the same order?"""
    return all(_directives(source, name) == _directives(translation, name) for name in formats)


def depends_on_order(placeholder: str) -> bool:
    """`%s` takes whichever value comes next, inside an address too; `%1$s` and `{name}` say which."""
    return _IN_ORDER.search(placeholder) is not None


def _directives(text: str, language: str) -> tuple[list[str], list[str]]:
    found = _compiled(language).findall(_QUOTED.sub("", text) if language == "java" else text)
    return [own for own in found if depends_on_order(own)], sorted(own for own in found if not depends_on_order(own))


@cache
def _compiled(language: str) -> re.Pattern[str]:
    return re.compile(directive_pattern((language,)), re.VERBOSE)
