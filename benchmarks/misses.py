"""Which constraints of a set do systems miss, and what stands in the output instead?

    python benchmarks/misses.py results/de-en rwth508.hard copy paper released
    python benchmarks/misses.py results/de-en rwth508.hard paper --prepared results/de-en/work/encode.*

Reads what `termweave experiment run` has translated. Constraints are counted by their words and, given the prepared
training text, by whether it has them as phrase pairs. A miss says how much of the constraint stands in the output.
Last comes how many outputs have words of the source that they should not have.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

from termweave import storage
from termweave.constraints.constraint import Constraint
from termweave.constraints.evaluation_sets import ConstrainedSentence, read_constraint_set
from termweave.data.corpus import PreparedCorpus
from termweave.decoding.demands import locate
from termweave.evaluation.overlap import measure_overlap

LONGEST = 5  # words; longer ones are counted with these


def kind_of_miss(text: str, target: str, language: str) -> str:
    words = target.split()
    there = [locate(text, [Constraint(word, word)], language)[0] is not None for word in words]
    if len(words) > 1 and all(there):
        return "all words, apart or in another order"
    if any(there):
        return "some of its words"
    return "in another case or inside a word" if target.casefold() in text.casefold() else "nothing of it"


def seen_in_training(rows: list[ConstrainedSentence], prepared: Path) -> list[list[str]]:
    """For each constraint of each sentence, what is said of it."""
    corpus = PreparedCorpus.open(prepared)
    overlap = measure_overlap(rows, corpus, corpus.directions[0].name)
    return [[("unseen", "seen")[overlap.phrase_pairs[pair] > 0] for pair in pairs] for pairs in overlap.constraints]


def is_left(text: str, row: ConstrainedSentence) -> bool:
    """Does a word of the source stand in the output that the reference has not? Not counting names and short words."""
    source, target, output = (set(re.findall(r"\w{4,}", each)) for each in (row.source, row.target, text))
    return any(word[0].islower() for word in (output & source) - target)


def report(results: Path, name: str, system: str, language: str, prepared: Path | None) -> str:
    [path] = results.glob(f"work/set.{name}.*/set.jsonl")
    [outputs] = results.glob(f"work/decode.{system}.{name}.*/outputs.json")
    rows = read_constraint_set(path)
    said = seen_in_training(rows, prepared) if prepared else [[""] * len(row.constraints) for row in rows]
    given: Counter[tuple[str, int]] = Counter()
    met: Counter[tuple[str, int]] = Counter()
    misses: Counter[str] = Counter()
    texts = storage.read_json(outputs)["texts"]
    for row, text, seen in zip(rows, texts, said, strict=True):
        spans = locate(text, row.constraints, language)
        for constraint, span, word in zip(row.constraints, spans, seen, strict=True):
            kind = word, min(len(constraint.target.split()), LONGEST)
            given[kind] += 1
            met[kind] += span is not None
            if span is None:
                misses[kind_of_miss(text, constraint.target, language)] += 1
    shares = ", ".join(
        f"{seen} {words}: {100 * met[seen, words] / count:.0f} % of {count}".lstrip()
        for (seen, words), count in sorted(given.items())
    )
    kinds = ", ".join(f"{kind} {count}" for kind, count in misses.most_common())
    left = sum(map(is_left, texts, rows)) / len(rows)
    met_shares = f"{system}, {name}: met, by words: {shares}"
    return f"{met_shares}\n  missed: {kinds}\n  words of the source left in {left:.0%} of outputs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder of an experiment's results")
    parser.add_argument("set", help="such as rwth508.hard")
    parser.add_argument("systems", nargs="+")
    parser.add_argument(
        "--prepared", type=Path, help="folder of the training text, to tell seen constraints from others"
    )
    parser.add_argument("--language", default="en", help="of the outputs")
    options = parser.parse_args()
    for system in options.systems:
        print(report(options.results, options.set, system, options.language, options.prepared))


if __name__ == "__main__":
    main()
