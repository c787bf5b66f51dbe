"""Which constraints of a set do systems miss, and what stands in the output instead?

    python benchmarks/misses.py results/de-en rwth508.hard copy paper released

Reads what `termweave experiment run` has translated. Constraints are counted by their words; a miss says how much of
the constraint stands in the output anyway.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from termweave import storage
from termweave.constraints.constraint import Constraint
from termweave.constraints.evaluation_sets import read_constraint_set
from termweave.decoding.demands import locate

LONGEST = 5  # words; longer ones are counted with these


def kind_of_miss(text: str, target: str, language: str) -> str:
    words = target.split()
    there = [locate(text, [Constraint(word, word)], language)[0] is not None for word in words]
    if len(words) > 1 and all(there):
        return "all words, apart or in another order"
    if any(there):
        return "some of its words"
    return "in another case or inside a word" if target.casefold() in text.casefold() else "nothing of it"


def report(results: Path, name: str, system: str, language: str) -> str:
    [rows] = results.glob(f"work/set.{name}.*/set.jsonl")
    [outputs] = results.glob(f"work/decode.{system}.{name}.*/outputs.json")
    given: Counter[int] = Counter()
    met: Counter[int] = Counter()
    misses: Counter[str] = Counter()
    for row, text in zip(read_constraint_set(rows), storage.read_json(outputs)["texts"], strict=True):
        for constraint, span in zip(row.constraints, locate(text, row.constraints, language), strict=True):
            words = min(len(constraint.target.split()), LONGEST)
            given[words] += 1
            met[words] += span is not None
            if span is None:
                misses[kind_of_miss(text, constraint.target, language)] += 1
    shares = ", ".join(f"{words}: {100 * met[words] / given[words]:.0f} % of {given[words]}" for words in sorted(given))
    kinds = ", ".join(f"{kind} {count}" for kind, count in misses.most_common())
    return f"{system}, {name}: met, by words: {shares}\n  missed: {kinds}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder of an experiment's results")
    parser.add_argument("set", help="such as rwth508.hard")
    parser.add_argument("systems", nargs="+")
    parser.add_argument("--language", default="en", help="of the outputs")
    options = parser.parse_args()
    for system in options.systems:
        print(report(options.results, options.set, system, options.language))


if __name__ == "__main__":
    main()
