"""Word alignment: Termweave's aligner against eflomal on the same words, in quality, CPU time and memory.

Four steps, so that the slow system is run once only:

    python benchmarks/align.py prepare --folder F --name de-en --pair SOURCE TARGET [LIMIT] --gold SOURCE TARGET LINKS
    python benchmarks/align.py eflomal --folder F --name de-en --eflomal-python PYTHON
    python benchmarks/align.py builtin --folder F --name de-en --threads 1
    python benchmarks/align.py table --folder F --output docs/results/align.json

Both systems read the same lower-cased words, run on one thread each unless told otherwise, and get the same
symmetrisation (grow-diag-final-and). The time is user plus system time of the whole process: reading text, aligning and
writing links. Termweave's includes symmetrisation, eflomal's does not.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import resource
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from termweave.alignment import alignment_error_rate, read_pharaoh, symmetrise
from termweave.storage import read_json, write_json

Link = tuple[int, int]

WORD = re.compile(r"'s\b|\w+(?:-\w+)*(?:[.,]\d+)*|[^\w\s]")
HAN = re.compile(r"[\u3400-\u9fff]")

EFLOMAL = """
import sys, eflomal
source, target, forward, backward = sys.argv[1:]
with open(source, encoding="utf-8") as first, open(target, encoding="utf-8") as second:
    eflomal.Aligner().align(first, second, links_filename_fwd=forward, links_filename_rev=backward)
"""


BUILTIN = """
import sys
from pathlib import Path
from termweave.alignment import align_files
source, target, output, threads = sys.argv[1:]
align_files(Path(source), Path(target), Path(output), threads=int(threads))
"""


def main() -> None:
    arguments = parse_arguments()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    {"prepare": prepare, "eflomal": run_eflomal, "builtin": run_builtin, "table": show_table}[arguments.step](arguments)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    prepare_step = steps.add_parser("prepare", help="split text into words, append the gold sentences")
    prepare_step.add_argument(
        "--pair",
        nargs="+",
        action="append",
        required=True,
        metavar="FILE",
        help="source file, target file, and optionally how many pairs of them",
    )
    prepare_step.add_argument("--gold", nargs=3, required=True, type=Path, metavar=("SOURCE", "TARGET", "LINKS"))
    eflomal_step = steps.add_parser("eflomal", help="align with eflomal")
    eflomal_step.add_argument("--eflomal-python", required=True, help="an interpreter that has eflomal")
    eflomal_step.add_argument("--reuse", action="store_true", help="score links that are there already")
    builtin_step = steps.add_parser("builtin", help="align with Termweave")
    builtin_step.add_argument("--threads", type=int, default=1)
    table_step = steps.add_parser("table", help="show all records")
    table_step.add_argument("--output", type=Path, required=True)
    for step in (prepare_step, eflomal_step, builtin_step, table_step):
        step.add_argument("--folder", type=Path, required=True, help="where texts, links and records are kept")
        if step is not table_step:
            step.add_argument("--name", required=True, help="name of the text, such as de-en")
    return parser.parse_args()


# --- text -----------------------------------------------------------------------------------------------------------


def prepare(arguments: argparse.Namespace) -> None:
    """Write NAME.source and NAME.target: the training text, then the gold sentences as they stand."""
    gold_source, gold_target, gold_links = arguments.gold
    with (
        (arguments.folder / f"{arguments.name}.source").open("w", encoding="utf-8") as source,
        (arguments.folder / f"{arguments.name}.target").open("w", encoding="utf-8") as target,
    ):
        for first, second, *limit in arguments.pair:
            pairs = zip(read_lines(Path(first)), read_lines(Path(second)), strict=True)
            for index, (source_line, target_line) in enumerate(pairs):
                if limit and index >= int(limit[0]):
                    break
                source.write(" ".join(split_words(source_line)) + "\n")
                target.write(" ".join(split_words(target_line)) + "\n")
        source.write(gold_source.read_text(encoding="utf-8").lower())
        target.write(gold_target.read_text(encoding="utf-8").lower())
    (arguments.folder / f"{arguments.name}.gold").write_text(gold_links.read_text(encoding="utf-8"), encoding="utf-8")


def read_lines(path: Path) -> Iterator[str]:
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            yield from lines
    else:
        with path.open(encoding="utf-8") as lines:
            yield from lines


def split_words(line: str) -> list[str]:
    line = line.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    if not HAN.search(line):
        return WORD.findall(line)
    import rjieba

    return [word for word in rjieba.cut(line) if not word.isspace()]


# --- the two systems ------------------------------------------------------------------------------------------------


def run_eflomal(arguments: argparse.Namespace) -> None:
    source, target = text_files(arguments)
    forward, backward = (arguments.folder / f"{arguments.name}.eflomal.{kind}" for kind in ("forward", "backward"))
    command = [arguments.eflomal_python, "-c", EFLOMAL, *map(str, (source, target, forward, backward))]
    usage = None if arguments.reuse and forward.exists() and backward.exists() else measure(command)
    record(arguments, "eflomal", usage, symmetrised_tail(forward, backward, source, target, gold_sentences(arguments)))


def run_builtin(arguments: argparse.Namespace) -> None:
    source, target = text_files(arguments)
    output = arguments.folder / f"{arguments.name}.builtin.links"
    usage = measure([sys.executable, "-c", BUILTIN, *map(str, (source, target, output, arguments.threads))])
    links = [parse_links(line) for line in tail(output, gold_sentences(arguments))]
    record(arguments, f"builtin, {arguments.threads} thread(s)", usage, links)


def text_files(arguments: argparse.Namespace) -> tuple[Path, Path]:
    return arguments.folder / f"{arguments.name}.source", arguments.folder / f"{arguments.name}.target"


def gold_sentences(arguments: argparse.Namespace) -> int:
    return len(read_pharaoh(arguments.folder / f"{arguments.name}.gold"))


def measure(command: list[str]) -> dict[str, float]:
    """Run a process to its end; its CPU time and memory, those of its own children included."""
    started = time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "wall_seconds": round(time.perf_counter() - started, 1),
        "peak_megabytes": round(usage.ru_maxrss / 1024),
    }


def record(arguments: argparse.Namespace, system: str, usage: dict[str, float] | None, links: list[set[Link]]) -> None:
    path = arguments.folder / f"{arguments.name}.{system.partition(',')[0]}{getattr(arguments, 'threads', '')}.json"
    rate = alignment_error_rate(read_pharaoh(arguments.folder / f"{arguments.name}.gold"), links)
    sentences = sum(1 for _ in read_lines(text_files(arguments)[0])) - rate.sentences
    kept = usage or {key: read_json(path)[key] for key in ("cpu_seconds", "wall_seconds", "peak_megabytes")}
    percent = {key: round(100 * getattr(rate, key), 2) for key in ("error_rate", "precision", "recall")}
    write_json(path, {"text": arguments.name, "training_pairs": sentences, "system": system, **percent, **kept})
    print(f"{arguments.name}, {system}: {rate}; {kept}")


# --- links of the gold sentences ------------------------------------------------------------------------------------


def tail(path: Path, lines: int) -> list[str]:
    return list(deque(read_lines(path), maxlen=lines))


def parse_links(line: str) -> set[Link]:
    return {(int(first), int(second)) for first, second in (link.split("-") for link in line.split())}


def symmetrised_tail(forward: Path, backward: Path, source: Path, target: Path, lines: int) -> list[set[Link]]:
    """Grow-diag-final-and of the last sentences of two one-sided Pharaoh files."""
    rows = []
    files = (tail(path, lines) for path in (forward, backward, source, target))
    for forward_line, backward_line, source_line, target_line in zip(*files, strict=True):
        origins = np.full(len(target_line.split()), -1, dtype=np.int32)
        goals = np.full(len(source_line.split()), -1, dtype=np.int32)
        for first, second in parse_links(forward_line):
            origins[second] = first
        for first, second in parse_links(backward_line):
            goals[first] = second
        links, _ = symmetrise(origins, goals, np.array([0, len(goals)]), np.array([0, len(origins)]))
        rows.append(set(links.tolist()))
    return rows


# --- report ---------------------------------------------------------------------------------------------------------


def show_table(arguments: argparse.Namespace) -> None:
    """All records, with the CPU time relative to eflomal's on the same text."""
    records = [read_json(path) for path in sorted(arguments.folder.glob("*.json"))]
    reference = {entry["text"]: entry["cpu_seconds"] for entry in records if entry["system"] == "eflomal"}
    print("| text | pairs | system | AER | precision | recall | CPU s | of eflomal | peak MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for entry in records:
        eflomal = reference.get(entry["text"])
        entry["cpu_of_eflomal"] = round(entry["cpu_seconds"] / eflomal, 2) if eflomal else None
        keys = (
            "text",
            "training_pairs",
            "system",
            "error_rate",
            "precision",
            "recall",
            "cpu_seconds",
            "cpu_of_eflomal",
        )
        print("|", " | ".join(str(entry[key]) for key in (*keys, "peak_megabytes")), "|")
    write_json(arguments.output, records)


if __name__ == "__main__":
    main()
