"""Placeholders and tags that stand in an output more often than in its source.

A required phrase stands there at least as often as it is required. For a word that is right; a program that finds a
placeholder too many breaks. So these are counted, and an output with a surplus is searched for again with it ruled out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from termweave.constraints.protection import counted
from termweave.decoding.batching import Request
from termweave.decoding.beam import Hypothesis
from termweave.decoding.demands import Wishes, needed_tokens, said
from termweave.text.vocabulary import Vocabulary
from termweave.text.words import BROKEN, normalise


def surplus_of(request: Request, hypothesis: Hypothesis, subwords: Vocabulary) -> Counter[str]:
    """What an output has too often, and how many of it; nothing where it is not asked for."""
    if request.wishes.counted is None:
        return Counter()
    found = counted(said(hypothesis.tokens, subwords))
    return found - Counter(request.wishes.counted) if found else found


def without_more(request: Request) -> Request:
    """The request with forbidden, beyond what is required, all that is counted in it."""
    wishes = request.wishes
    counted = tuple(text for text in dict.fromkeys(wishes.counted or ()) if _can_be_limited(text, wishes))
    return replace(request, wishes=replace(wishes, surplus=counted)) if counted else request


def without_surplus(request: Request, subwords: Vocabulary) -> Request:
    """The request with forbidden, beyond what is required, what its outputs have too often, and all that could take the
    place of that; the same request if its best output has nothing too often.

    What was forbidden already, and is there again, was spelled in an unusual way: then a token of it is not used.
    """
    wishes = request.wishes
    if not any(surplus_of(request, hypothesis, subwords) for hypothesis in request.found[:1]):
        return request
    new, never = [*wishes.surplus], [*wishes.never]
    for hypothesis in request.found:
        surplus = surplus_of(request, hypothesis, subwords)
        new += [text for text in (*surplus, *(wishes.counted or ())) if _can_be_limited(text, wishes)]
        for text in wishes.surplus:
            never += _odd(text, hypothesis, wishes, subwords) if text in surplus else ()
    wishes = replace(wishes, surplus=tuple(dict.fromkeys(new)), never=tuple(dict.fromkeys(never)))
    return replace(request, wishes=wishes)


def _can_be_limited(text: str, wishes: Wishes) -> bool:
    """The search counts only what is required as it stands."""
    targets = {normalise(target) for constraint in wishes.required for target in constraint.targets}
    return text in targets or text not in (wishes.counted or ())


def _odd(text: str, hypothesis: Hypothesis, wishes: Wishes, subwords: Vocabulary) -> list[int]:
    """A token of each place where an output spells a text in another way than it is required."""
    tokens, needed, decode = hypothesis.tokens, needed_tokens(wishes, subwords), subwords.decode
    longest = max(map(len, subwords.target.spellings(text)), default=0) + 1
    found = []
    for end in range(1, len(tokens) + 1):
        first = max(end - longest, 0)
        if _surely_lacks(decode(tokens[first:end]), text):  # as mostly
            continue
        starts = range(end - 1, first - 1, -1)
        start = next((own for own in starts if text in decode(tokens[own:end])), None)
        if start is not None and text not in decode(tokens[start : end - 1]):  # else it ended before
            found += [token for token in tokens[start:end] if token not in needed][:1]
    return found


def _surely_lacks(said: str, text: str) -> bool:
    """Can no part of the tokens that say this say the text? Parts of what is well spelled say what it says, but for
    halves of characters at their ends; where those are left out, white space may change."""
    return text not in said and BROKEN not in said and not any(map(str.isspace, text))
