"""Outputs that say the same over and over: "i.e. i.e. i.e. i.e. …".

A plain search mostly ends before a model gets there. An output that must first meet something cannot end, and where the
model would not say what it must, it may find repeating itself the likeliest thing to do meanwhile. `flaws` sees to it
that such an output is searched for again with the repetition forbidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import eq

from termweave.decoding.batching import Request
from termweave.decoding.beam import Hypothesis
from termweave.text.vocabulary import Vocabulary
from termweave.text.words import normalise

REPEATS = 4  # in a row; people do say things three times
LONGEST = 8  # tokens of what is repeated

Unit = tuple[int, ...]  # what is repeated, begun anywhere in it


def repetitions(tokens: Sequence[int]) -> set[Unit]:
    """All that stands REPEATS times in a row somewhere, each unit begun where that makes it the smallest."""
    found: set[Unit] = set()
    if len(tokens) - len(set(tokens)) < REPEATS - 1:  # a quick look, for most outputs
        return found
    for period in range(1, LONGEST + 1):
        if sum(map(eq, tokens, tokens[period:])) < (REPEATS - 1) * period:  # the same, place by place
            continue
        same = 0
        for place in range(period, len(tokens)):
            same = same + 1 if tokens[place] == tokens[place - period] else 0
            if same >= (REPEATS - 1) * period:
                found.add(min(_turned(tuple(tokens[place + 1 - period : place + 1]))))
    return found


def stutter(request: Request, hypothesis: Hypothesis, subwords: Vocabulary) -> set[Unit]:
    """What an output that must meet something repeats without a reason.

    There is one where a target does, or where the source repeats something, and the model by itself does so too.
    """
    if not request.wishes.required:
        return set()
    found = repetitions(hypothesis.tokens)
    if found and repetitions(request.source):
        found -= repetitions(request.spoken) if request.spoken else found
    for constraint in request.wishes.required if found else ():
        for target in constraint.targets:
            found -= repetitions(subwords.target.encode(normalise(target)))
    return found


def without_stutter(request: Request, hypotheses: Iterable[Hypothesis], subwords: Vocabulary) -> Request:
    """The request with forbidden, twice in a row, what outputs repeat; the same request if that is nothing new."""
    units = sorted({unit for own in hypotheses for unit in stutter(request, own, subwords)})
    from_words = (next((own for own in _turned(unit) if subwords.starts_word(own)[0]), ()) for unit in units)
    twice = [subwords.decode(unit * 2) for unit in from_words if unit]
    targets = [f" {normalise(target)} " for constraint in request.wishes.required for target in constraint.targets]
    new = [text for text in twice if text and not any(f" {text} " in target for target in targets)]
    forbidden = tuple(dict.fromkeys((*request.wishes.forbidden, *new)))
    return replace(request, wishes=replace(request.wishes, forbidden=forbidden))


def _turned(unit: Unit) -> list[Unit]:
    """The unit begun at each of its tokens."""
    return [unit[start:] + unit[:start] for start in range(len(unit))]
