"""Word alignment: Termweave's aligner against eflomal on the same words, in quality, CPU time and memory.

Four steps, so that the slow system is run once only:

    python benchmarks/align.py prepare --folder F --name de-en --pair SOURCE TARGET [LIMIT] --gold SOURCE TARGET LINKS
    python benchmarks/align.py eflomal --folder F --name de-en --eflomal-python PYTHON
    python benchmarks/align.py builtin --folder F --name de-en --threads 1
    python benchmarks/align.py table --folder F --output docs/results/align.json

Both systems read the same lower-cased words; both get the same grow-diag-final-and symmetrisation; the time is user
plus system time of the whole process, reading and writing included.
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
from collections.abc import Iterator
from pathlib import Path

from termweave.storage import read_json, write_json

WORD = re.compile(r"'s\b|\w+(?:-\w+)*(?:[.,]\d+)*|[^\w\s]")
HAN = re.compile(r"[\u3400-\u9fff]")

EFLOMAL = """
import sys, eflomal
source, target, forward, backward = sys.argv[1:]
with open(source, encoding="utf-8") as first, open(target, encoding="utf-8") as second:
    eflomal.Aligner().align(first, second, links_filename_fwd=forward, links_filename_rev=backward)
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
    source, target, forward, backward = (
        arguments.folder / f"{arguments.name}.{kind}"
        for kind in ("source", "target", "eflomal.forward", "eflomal.backward")
    )
    command = [arguments.eflomal_python, "-c", EFLOMAL, str(source), str(target), str(forward), str(backward)]
    record = measure("eflomal", command, arguments)


def run_builtin(arguments: argparse.Namespace) -> None:
    raise NotImplementedError


def measure(system: str, command: list[str], arguments: argparse.Namespace) -> dict[str, object]:
    """Run a process to its end and keep its CPU time and memory."""
    started = time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    record: dict[str, object] = {
        "text": arguments.name,
        "system": system,
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "wall_seconds": round(time.perf_counter() - started, 1),
        "peak_megabytes": round(usage.ru_maxrss / 1024),
    }
    write_json(arguments.folder / f"{arguments.name}.{system}.json", record)
    return record


def show_table(arguments: argparse.Namespace) -> None:
    raise NotImplementedError


if __name__ == "__main__":
    main()
