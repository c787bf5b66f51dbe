"""Outputs that keep to all wishes and are not right all the same: they stutter, or hold a placeholder too often.

Such an output is searched for again with that ruled out, a few times; it is taken all the same if nothing better comes
of it, for constraints come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from termweave.decoding.batching import Request, may_be_cut_off
from termweave.decoding.beam import Hypothesis
from termweave.decoding.stutter import stutter, without_stutter
from termweave.decoding.surplus import surplus_of, without_surplus
from termweave.text.vocabulary import Vocabulary

MOST_SEARCHES = 2  # of a sentence, for this, besides the first one
NEARLY = 0.1  # less of a score: so good is an output without flaws that nobody need search for a better one


def is_flawed(request: Request, hypothesis: Hypothesis, subwords: Vocabulary) -> bool:
    return bool(stutter(request, hypothesis, subwords) or surplus_of(request, hypothesis, subwords))


def nearly_as_good(request: Request, subwords: Vocabulary) -> Hypothesis | None:
    """The best output without flaws, if it scores hardly less than the best of all, which comes first.

    One that was cut off may only not have come to its flaws.
    """
    best, *others = request.found
    near = (own for own in others if own.score > best.score - NEARLY and not may_be_cut_off(request, len(own.tokens)))
    return next((own for own in near if not is_flawed(request, own, subwords)), None)


def best_first(request: Request, hypotheses: Iterable[Hypothesis], subwords: Vocabulary) -> list[Hypothesis]:
    """Different outputs, those with flaws behind the others."""
    different = {hypothesis.tokens: hypothesis for hypothesis in hypotheses}.values()
    return sorted(different, key=lambda own: (is_flawed(request, own, subwords), -own.score))


def stricter(request: Request, subwords: Vocabulary) -> Request:
    """The request with the flaws of its best output ruled out; the same request if it has none that is new."""
    return without_surplus(without_stutter(request, request.found[:1], subwords), subwords)


def mended(
    batch: list[Request],
    search: Callable[[list[Request]], list[list[Hypothesis]]],
    kept_of: Callable[[Request, list[Hypothesis]], list[Hypothesis]],  # those that keep to the wishes
    subwords: Vocabulary,
) -> Iterator[tuple[Request, list[Hypothesis]]]:
    """Each request with what was found for it, after as many searches as it takes."""
    for _ in range(MOST_SEARCHES):
        again = []
        for request in batch:
            better = stricter(request, subwords)
            if better.wishes == request.wishes:
                yield request, [*request.found]
            else:
                again.append(better)
        batch = []
        for request, hypotheses in zip(again, search(again) if again else (), strict=True):
            kept = [*request.found, *kept_of(request, hypotheses)]
            batch.append(replace(request, found=tuple(best_first(request, kept, subwords))))
    yield from ((request, [*request.found]) for request in batch)
