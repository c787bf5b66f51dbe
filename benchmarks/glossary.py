"""How long it takes to find the terms of a glossary in sentences: reading the file, building the matcher, finding.

    python benchmarks/glossary.py TERMS.tsv TEXT.en --languages en-de --sentences 10000

One process, one thread; CPU seconds, the best of `--rounds`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path

from termweave.constraints.glossary_files import read_glossary
from termweave.constraints.glossary_lint import lint_glossary
from termweave.constraints.matching import TermMatcher
from termweave.data.readers import read_lines


def measure(path: Path, languages: str, sentences: list[str], inflection: bool, protect: bool) -> dict[str, float]:
    source, _, target = languages.partition("-")
    start = time.process_time()
    glossary = read_glossary(path, source, target)
    read = time.process_time()
    matcher = TermMatcher(glossary, inflection=inflection, protect=protect)
    built = time.process_time()
    matches = sum(len(matcher.find(sentence)) for sentence in sentences)
    found = time.process_time()
    lint_glossary(glossary)
    linted = time.process_time()
    return {
        "entries": len(glossary),
        "sentences": len(sentences),
        "matches": matches,
        "read": read - start,
        "build": built - read,
        "find": found - built,
        "total": found - start,
        "lint": linted - found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glossary", type=Path)
    parser.add_argument("text", type=Path, help="sentences, one a line; plain, .gz or .xz")
    parser.add_argument("--languages", default="en-de")
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--inflection", action="store_true")
    parser.add_argument("--no-protection", action="store_true")
    options = parser.parse_args()
    sentences = list(itertools.islice(read_lines(options.text), options.sentences))
    rounds = [
        measure(options.glossary, options.languages, sentences, options.inflection, not options.no_protection)
        for _ in range(options.rounds)
    ]
    best = min(rounds, key=lambda own: own["total"])
    print(json.dumps({key: round(value, 2) for key, value in best.items()}))


if __name__ == "__main__":
    main()
