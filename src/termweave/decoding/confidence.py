"""How sure the model was of the terms it produced: receipts with probabilities, by one more pass over the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from termweave.constraints.constraint import Constraint
from termweave.decoding.forced import ScoredOutput
from termweave.decoding.terminology import told
from termweave.decoding.translator import Translation, Translator
from termweave.text.words import Span


def with_probabilities(
    translator: Translator,
    sentences: Sequence[str],
    results: Sequence[Translation],
    constraints: Sequence[Sequence[Constraint]] | None = None,
    *,
    direction: str | None = None,
) -> list[Translation]:
    """The translations, their receipts with P of each term: that of all its subwords, one after the other.

    constraints: those the sentences were translated with, besides the terms of the glossary.
    """
    chosen = [index for index, result in enumerate(results) if any(own.target_span for own in result.receipts)]
    given = [[*(constraints[index] if constraints else ()), *told(results[index].receipts)] for index in chosen]
    scored = translator.token_probabilities(
        [sentences[index] for index in chosen], [results[index] for index in chosen], given, direction=direction
    )
    completed = list(results)
    for index, output in zip(chosen, scored, strict=True):
        receipts = tuple(
            own
            if own.target_span is None
            else replace(own, probability=span_probability(output, own.target_span, translator.subwords.decode))
            for own in results[index].receipts
        )
        completed[index] = replace(results[index], receipts=receipts)
    return completed


def span_probability(output: ScoredOutput, span: Span, decode: Callable[[Sequence[int]], str]) -> float:
    """P of the subwords that stand, at least in part, inside a span of the output's characters."""
    reached = [0, *(len(decode(output.tokens[:count])) for count in range(1, len(output.tokens) + 1))]
    inside = [
        probability
        for start, end, probability in zip(reached, reached[1:], output.probabilities, strict=False)
        if start < span[1] and span[0] < end
    ]
    return math.prod(inside)
