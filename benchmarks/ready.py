"""The ready model measured: what MODEL_CARD.md reports, from JSON files that this writes.

    python benchmarks/ready.py quality --precision int8 --text carry/ready --glossary carry/ready/software.en-de.tsv
    python benchmarks/ready.py terms   --precision int8 --text carry/ready --glossary carry/ready/software.en-de.tsv
    OMP_WAIT_POLICY=PASSIVE python benchmarks/ready.py speed  # as our commands do; the other options as above
    python benchmarks/ready.py shape   --text carry/ready --sentences 500 --model MODEL --name deep
    python benchmarks/ready.py card

`quality`: BLEU and chrF without a glossary, for every domain and direction. `terms`: held-out sentences with the
terms of the glossary whose translation stands in the reference, told to the model (beam search), and guaranteed; and
all terms that are found in them, guaranteed, whatever the reference says. `speed`: sentences a second without and with
the whole glossary in turns, after other text of the same field, with all terms new to the model, and with the same text
again; also with the operations of one batch shared out among all processors; the time from the start of the program to
the first translation, memory. `shape`: the quality of a model after stage 1 alone, to choose depth and width by.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, median

import torch

from decode import processor
from render_ready import render
from termweave import Constraint, Glossary, Terminology, Translator, storage
from termweave.accelerators import prepare_process
from termweave.config import to_tree
from termweave.constraints.glossary_files import read_glossary
from termweave.data.readers import read_lines
from termweave.decoding import crew
from termweave.decoding.demands import told_as
from termweave.decoding.translator import Translation
from termweave.evaluation.bleu import corpus_bleu, corpus_chrf
from termweave.evaluation.csr import constraints_met, success_rate
from termweave.model.known_terms import Pair
from termweave.model.transformer import Transformer

RESULTS = Path("docs/results/ready")
DOMAINS = {"debates": "dev.europarl", "software": "dev.software", "news": "test.newstest2014"}
LONG_ENOUGH_TO_TELL, SURE = 40, 0.95  # characters of a sentence; probability of its language
TERM_DOMAIN = "software"  # where the glossary belongs
FIRST = "from termweave import Translator; t = Translator.load({model!r}, 'cpu', 'int8'); "
FIRST += "print(t.translate([{sentence!r}], direction={direction!r})[0])"


def read_set(folder: Path, domain: str, direction: str, most: int) -> tuple[list[str], list[str]]:
    """Sources and references."""
    columns = []
    for language in direction.split("-"):
        path = folder / f"{DOMAINS[domain]}.{language}"
        path = path if path.exists() else path.with_name(f"{path.name}.xz")
        columns.append(list(itertools.islice(read_lines(path), most or None)))
    return columns[0], columns[1]


def measure_quality(translator: Translator, options: argparse.Namespace) -> list[dict[str, object]]:
    """And how much better it is where both sides are in the languages they should be in."""
    rows = []
    for direction, domain in itertools.product(translator.directions, DOMAINS):
        row, sources, references, outputs = measure_set(translator, direction, domain, options)
        languages = direction.split("-")
        proper = [index for index, pair in enumerate(zip(sources, references, strict=True)) if are_in(pair, *languages)]
        bleu = corpus_bleu(*chosen(proper, outputs, references), languages[1])
        rows.append({**row, "in_their_languages": len(proper), "bleu_in_their_languages": bleu.value})
    return rows


def measure_set(
    translator: Translator, direction: str, domain: str, options: argparse.Namespace
) -> tuple[dict[str, object], list[str], list[str], list[str]]:
    """The figures of a test set; its sources, references and translations."""
    sources, references = read_set(options.text, domain, direction, options.sentences)
    started = time.monotonic()
    outputs = texts(translator.translate(sources, direction=direction, batch_tokens=options.batch_tokens))
    seconds = time.monotonic() - started
    bleu = corpus_bleu(outputs, references, direction.partition("-")[2])
    chrf = corpus_chrf(outputs, references)
    print(f"{direction} {domain}: BLEU {bleu.value:.1f} chrF {chrf.value:.1f} ({seconds:.0f} s)", flush=True)
    row = {
        "direction": direction,
        "domain": domain,
        "sentences": len(sources),
        "bleu": bleu.value,
        "chrf": chrf.value,
        "seconds": round(seconds, 1),
        "signatures": [bleu.signature, chrf.signature],
    }
    return row, sources, references, outputs


def are_in(pair: tuple[str, str], *languages: str) -> bool:
    """Are both sides in their languages, as far as can be told? Of some debates the German side is in another one."""
    return all(is_in(text, language) for text, language in zip(pair, languages, strict=True))


def is_in(text: str, language: str) -> bool:
    if len(text) < LONG_ENOUGH_TO_TELL:
        return True
    from termweave.server.detection import detect

    found, probability = detect(text)[0]
    return found == language or probability < SURE


def chosen(indices: Sequence[int], *columns: Sequence[str]) -> list[list[str]]:
    return [[column[index] for index in indices] for column in columns]


def measure_shape(translator: Translator, options: argparse.Namespace) -> dict[str, object]:
    """What it would weigh with its constraint modules, and its BLEU."""
    config = replace(translator.model.config, attention=True, output=True)
    with torch.device("meta"):
        whole = Transformer(config, len(translator.model.embedding), translator.model.padding)
    sets = itertools.product(translator.directions, DOMAINS)
    rows = [measure_set(translator, direction, domain, options)[0] for direction, domain in sets]
    return {
        "name": options.name,
        "shape": to_tree(config),
        "parameters": sum(parameter.numel() for parameter in whole.parameters()),
        "rows": rows,
        "mean_bleu": mean(float(str(row["bleu"])) for row in rows),
    }


def texts(translations: Sequence[Translation]) -> list[str]:
    return [translation.text for translation in translations]


def directed(path: Path, direction: str) -> Glossary:
    """The glossary for a direction; for the way back, each target leads to its source."""
    glossary = read_glossary(path, "en", "de")
    if direction == "en-de":
        return glossary.merged()
    entries = [
        replace(entry, source=target, targets=(entry.source,)) for entry in glossary.entries for target in entry.targets
    ]
    return Glossary.of(entries, direction).merged()


def measure_terms(translator: Translator, options: argparse.Namespace) -> list[dict[str, object]]:
    """Terms as constraints, so that an independent count says whether they stand in the outputs as whole words."""
    rows: list[dict[str, object]] = []
    for direction in translator.directions:
        language = direction.partition("-")[2]
        sources, references = read_set(options.text, TERM_DOMAIN, direction, options.sentences)
        terminology = Terminology(directed(options.glossary, direction), direction)
        found = [terminology.plan(source).required for source in sources]
        kept = [index for index, own in enumerate(found) if own]
        sources, references = chosen(kept, sources, references)
        found = [found[index] for index in kept]
        agreeing = [in_reference(own, reference, language) for own, reference in zip(found, references, strict=True)]
        for name, terms, search in (
            ("none", None, "beam"),
            ("in the reference, told", agreeing, "beam"),
            ("in the reference, guaranteed", agreeing, "vdba"),
            ("all, told", found, "beam"),
            ("all, guaranteed", found, "vdba"),
        ):
            started = time.process_time()
            outputs = texts(
                translator.translate(
                    sources, terms, direction=direction, search=search, batch_tokens=options.batch_tokens
                )
            )
            success = success_rate(outputs, terms or agreeing, language)
            row = {
                "direction": direction,
                "terms": name,
                "sentences": len(sources),
                "bleu": corpus_bleu(outputs, references, language).value,
                "met": success.met,
                "total": success.total,
                "cpu_seconds": round(time.process_time() - started, 1),
            }
            rows.append(row)
            print(f"{direction} {name}: BLEU {row['bleu']:.1f}, {success.met} of {success.total} terms", flush=True)
    return rows


def in_reference(terms: Sequence[Constraint], reference: str, language: str) -> list[Constraint]:
    """Those of which a translation stands in the reference, with that one alone."""
    met = constraints_met(reference, terms, language)
    return [_as_there(term, reference, language) for term, is_met in zip(terms, met, strict=True) if is_met]


def _as_there(term: Constraint, reference: str, language: str) -> Constraint:
    each = [Constraint(term.source, target) for target in term.targets]
    return next(own for own in each if constraints_met(reference, [own], language)[0])


def measure_speed(options: argparse.Namespace) -> dict[str, object]:
    """On the CPU, in int8, as a user would; rounds without and with the glossary in turns."""
    torch.set_num_threads(options.threads)
    prepare_process()  # as our commands do
    translator = Translator.load(options.model, "cpu", "int8")
    direction = "en-de" if "en-de" in translator.directions else translator.directions[0]
    loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sources, _ = read_set(options.text, TERM_DOMAIN, direction, options.sentences)
    glossary = directed(options.glossary, direction)
    started = time.process_time()
    whole, none = Terminology(glossary, direction), Terminology(None, direction)
    built = time.process_time() - started
    systems = (
        Timed("plain", none),
        Timed("glossary", whole, meets=terms_of(other_text(options, direction), whole, translator)),
        Timed("glossary, terms new to the model", whole, meets=()),
        Timed("glossary, the same text again", whole),
        Timed("plain, one batch at a time", none, crew=1),
    )
    for _ in range(options.rounds + 1):
        for system in systems:
            system.run(translator, sources, direction)
    by_clock, by_cpu = (
        {own.name: [len(sources) / pair[clock] for pair in own.seconds[1:]] for own in systems} for clock in (0, 1)
    )
    return {
        "direction": direction,
        "threads": options.threads,
        "processor": processor(),
        "sentences": len(sources),
        "terms": systems[1].terms,
        "entries": len(glossary),
        "sentences_per_second": by_clock,
        "sentences_per_cpu_second": by_cpu,
        "ratio": ratio(by_clock["glossary"], by_clock["plain"]),
        "cpu_ratio": ratio(by_cpu["glossary"], by_cpu["plain"]),
        "ratio_of_new_terms": ratio(by_clock[systems[2].name], by_clock["plain"]),
        "cpu_ratio_of_new_terms": ratio(by_cpu[systems[2].name], by_cpu["plain"]),
        "ratio_of_same_text": ratio(by_clock[systems[3].name], by_clock["plain"]),
        "cpu_ratio_of_same_text": ratio(by_cpu[systems[3].name], by_cpu["plain"]),
        "lines_before": options.before,
        "glossary_build_seconds": round(built, 2),
        "first_translation_seconds": first_translation(options.model, direction, sources[0]),
        "loaded_mebibytes": loaded // 1024,
        "peak_mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def other_text(options: argparse.Namespace, direction: str) -> list[str]:
    """Of the same field, and none of it in the test set."""
    path = options.text / f"train.{TERM_DOMAIN}.{direction.partition('-')[0]}.xz"
    lines = list(itertools.islice(read_lines(path), options.before))
    if len(lines) < options.before:
        raise SystemExit(f"{path} has {len(lines):,} lines; ask for no more of them (--before)")
    return lines


def terms_of(lines: Sequence[str], terminology: Terminology, translator: Translator) -> list[Pair]:
    """As the model is told of them, in the order of the lines."""
    told = (constraint for line in lines for constraint in terminology.plan(line).told)
    return [told_as(own.source, own.wordings, translator.subwords) for own in told]


@dataclass
class Timed:
    """A way to translate, and what each round of it took; the first one warms up."""

    name: str
    terminology: Terminology
    crew: int = crew.MOST  # batches that are searched at once, at most
    # What the model has met of terms before each round, and nothing else; None: what the rounds before have left.
    meets: Sequence[Pair] | None = None
    seconds: list[tuple[float, float]] = field(default_factory=list)  # by the clock, and of the processors
    terms: int = 0

    def run(self, translator: Translator, sources: Sequence[str], direction: str) -> None:
        usual, crew.MOST = crew.MOST, self.crew
        known = translator._searcher.known_terms
        if self.meets is not None and known is not None:
            known.forget()
            known.meet(self.meets)
        wall, cpu = time.monotonic(), time.process_time()
        translations = translator.translate(sources, direction=direction, terminology=self.terminology)
        self.seconds.append((time.monotonic() - wall, time.process_time() - cpu))
        crew.MOST = usual
        self.terms = sum(len(own.receipts) for own in translations)
        print(f"{self.name}: {len(sources) / self.seconds[-1][0]:.1f} sentences/s", flush=True)


def ratio(these: Sequence[float], those: Sequence[float]) -> float:
    """The median of what it was in each round."""
    return median(own / other for own, other in zip(these, those, strict=True))


def first_translation(model: str | None, direction: str, sentence: str) -> list[float]:
    """Seconds from the start of a fresh process to its end, one translation later, three times."""
    program = FIRST.format(model=model, sentence=sentence, direction=direction)
    times = []
    for _ in range(3):
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
        times.append(round(time.monotonic() - started, 2))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["quality", "terms", "speed", "shape", "card"])
    parser.add_argument("--model", help="a model folder; default: the ready model")
    parser.add_argument("--text", type=Path, default=Path("carry/ready"), help="folder of the test sets")
    parser.add_argument("--glossary", type=Path, default=Path("carry/ready/software.en-de.tsv"))
    parser.add_argument("--sentences", type=int, default=0, help="only so many of each set; 0: all")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16", "int8"])
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=int, default=10_000, help="lines of train.software whose terms are known")
    parser.add_argument("--name", default="shape", help="of a shape")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.what == "card":
        render(options.results, Path("MODEL_CARD.md"))
        return
    if options.what == "speed":
        storage.write_json(options.results / "speed.json", measure_speed(options))
        return
    translator = Translator.load(options.model, options.device, options.precision)
    if options.what == "shape":
        storage.write_json(options.results / f"shape.{options.name}.json", measure_shape(translator, options))
        return
    measure = measure_quality if options.what == "quality" else measure_terms
    record = {"rows": measure(translator, options), "precision": options.precision, "arguments": sys.argv[1:]}
    storage.write_json(options.results / f"{options.what}.json", record)
    print(json.dumps(record["arguments"]))


if __name__ == "__main__":
    main()
