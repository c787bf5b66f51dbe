"""Words of a glossary are due before the limit of an output: what that changes.

    python benchmarks/deadlines.py --text carry/ready --glossary carry/ready/software.en-de.tsv

For each domain and direction, with the ready model in int8 on the CPU: BLEU with all terms of the glossary that are
found, and with those whose translation stands in the reference, all guaranteed; of the former, tokens, steps of the
search (of each sentence), and outputs that end at their limit. Once with those words due at the limit, once as the
search is. Writes docs/results/ready/deadlines.json, in some minutes on one core.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from ready import DOMAINS, RESULTS, directed, in_reference, read_set
from termweave import Terminology, Translator, storage
from termweave.accelerators import prepare_process
from termweave.decoding import searcher
from termweave.decoding.beam import NO_LENGTH, BeamState, PlainSteps
from termweave.evaluation.bleu import corpus_bleu


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts steps, and outputs at their limit, of all searches meanwhile. Exact on one thread only."""
    found: Counter[str] = Counter()
    advance, search = PlainSteps.advance, searcher.Searcher.search

    def counting_advance(self: PlainSteps, state: BeamState, near_limit: bool) -> None:
        found["steps"] += int(state.searching.sum())
        advance(self, state, near_limit)

    def counting_search(
        self: searcher.Searcher, batch: searcher.LaidOut, *given: Any, **named: Any
    ) -> searcher.Outputs:
        outputs = search(self, batch, *given, **named)
        for request, own, limit in zip(batch.requests, outputs, batch.limits.tolist(), strict=True):
            found["at their limit"] += bool(request.wishes.required and own and len(own[0].tokens) >= limit)
        return outputs

    with (
        patch.object(PlainSteps, "advance", counting_advance),
        patch.object(searcher.Searcher, "search", counting_search),
    ):
        yield found


@contextmanager
def due_at_the_limit() -> Iterator[None]:
    def never(batch: object, needed: torch.Tensor) -> torch.Tensor:
        return torch.full_like(needed, NO_LENGTH)

    with patch.object(searcher, "deadlines", never):
        yield


def measure(translator: Translator, domain: str, direction: str, options: argparse.Namespace) -> dict[str, object]:
    language = direction.partition("-")[2]
    sources, references = read_set(options.text, domain, direction, options.sentences)
    terminology = Terminology(directed(options.glossary, direction), direction)
    agreeing = [
        in_reference(terminology.plan(source).told, reference, language)
        for source, reference in zip(sources, references, strict=True)
    ]
    with counted() as found:
        all_terms = translator.translate(sources, direction=direction, terminology=terminology)
    of_references = translator.translate(
        sources, agreeing, direction=direction, terminology=Terminology(None, direction)
    )
    return {
        "domain": domain,
        "direction": direction,
        "sentences": len(sources),
        "bleu_of_all_terms": round(corpus_bleu([own.text for own in all_terms], references, language).value, 2),
        "bleu_of_terms_in_references": round(
            corpus_bleu([own.text for own in of_references], references, language).value, 2
        ),
        "tokens": sum(len(own.tokens) for own in all_terms),
        **found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, default=Path("carry/ready"), help="folder of the test sets")
    parser.add_argument("--glossary", type=Path, default=Path("carry/ready/software.en-de.tsv"))
    parser.add_argument("--sentences", type=int, default=500, help="so many of each set")
    parser.add_argument("--output", type=Path, default=RESULTS / "deadlines.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    prepare_process()
    translator = Translator.load(None, "cpu", "int8")
    rows = []
    for domain in DOMAINS:
        for direction in translator.directions:
            with due_at_the_limit():
                before = measure(translator, domain, direction, options)
            rows += [
                {"due": "at the limit", **before},
                {"due": "before", **measure(translator, domain, direction, options)},
            ]
            print(*rows[-2:], sep="\n", flush=True)
    storage.write_json(options.output, {"rows": rows})


if __name__ == "__main__":
    main()
