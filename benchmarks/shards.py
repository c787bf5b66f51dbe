"""`termweave translate --shards`: sentences a second by plain translation, by processes, and by a local Ray.

    python benchmarks/shards.py                                # measures; docs/results/shards.json and shards.md
    python benchmarks/shards.py --tiny --folder build/shards   # does it run?

Generated text, a small model with random weights (its outputs are as long as they may be). Systems take turns, round
after round, and their outputs must be the same to the byte. Speeds count from the first chunk that is done: how long
it took to get there is told beside it. At the end the command is killed in the middle and gone on with.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import itertools
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from termweave import Translator
from termweave.config import ModelConfig
from termweave.data.parallel import worker_count
from termweave.data.readers import read_lines
from termweave.decoding.requests import Wanted
from termweave.experiments.toy import generate
from termweave.model.checkpoint import save_checkpoint
from termweave.model.transformer import Transformer
from termweave.shards import Settings, translate_shards
from termweave.shards.formats import TextLines
from termweave.shards.processes import Processes
from termweave.shards.ray_engine import RayData
from termweave.shards.work import Chunk, Done, Engine
from termweave.storage import read_json, remove, write_json, write_text
from termweave.text.subwords import Subwords
from termweave.text.words import join_tokens

SHARDS = 3  # the first as long as all others together
SYSTEMS: dict[str, Engine | None] = {
    "plain": None,
    "1 process": Processes(1),
    "2 processes": Processes(2),
    "Ray, 2 workers": RayData(2),
}
SEARCH = {"beam": 4, "search": "vdba", "ordered": False, "batch_tokens": 4096}
SCANNED = 1_000_000  # lines, to see how long cutting a corpus into chunks takes


def make_material(folder: Path, sentences: int, size: int) -> None:
    """A model, a corpus in shards, and the same in one file."""
    texts = [join_tokens(pair.source, "de")[0] for pair in generate(sentences, seed=1)]
    half, rest = texts[: sentences // 2], texts[sentences // 2 :]
    parts = [half, *(rest[number :: SHARDS - 1] for number in range(SHARDS - 1))]
    for number, part in enumerate(parts):
        write_text(folder / "corpus" / f"part{number}.de", "".join(text + "\n" for text in part))
    write_text(folder / "all.de", "".join(text + "\n" for part in parts for text in part))
    subwords = Subwords.train(texts, folder / "tokenizer.model", size=800)
    config = ModelConfig(dimension=size, heads=4, encoder_layers=3, decoder_layers=3, feed_forward=4 * size, dropout=0)
    torch.manual_seed(1)
    weights = Transformer(config, subwords.size, subwords.pad).state_dict()
    save_checkpoint(folder / "model", weights, config, ["de-en"], folder / "tokenizer.model")


@dataclass
class Timed:
    """An engine, and when each of its chunks was done: by the clock of the file system, for engines may tell late."""

    engine: Engine
    done: list[tuple[float, int]] = field(default_factory=list)  # seconds, sentences

    def __call__(self, settings: Settings, chunks: Sequence[Chunk]) -> Generator[Done, None, None]:
        start = time.time()
        for done in self.engine(settings, chunks):
            self.done.append((done.chunk.file("json").stat().st_mtime - start, done.chunk.rows))
            yield done

    def first_and_speed(self) -> tuple[float, float]:
        (first, _), *rest = sorted(self.done)
        return first, sum(rows for _, rows in rest) / (rest[-1][0] - first)


def run_engine(folder: Path, engine: Engine, output: Path, chunk_lines: int) -> tuple[float, float]:
    """Seconds until the first chunk is done, sentences a second from there on."""
    wanted = Wanted((), (), inflection=False, protect=True)
    settings = Settings(folder / "model", wanted, device="cpu", search=SEARCH)
    timed = Timed(engine)
    translate_shards([folder / "corpus"], output, settings, timed, rows=chunk_lines)
    return timed.first_and_speed()


def run_plain(folder: Path, output: Path) -> tuple[float, float]:
    """The same for what `termweave translate --lines` does, which knows no chunks: seconds to load the model."""
    start = time.perf_counter()
    translator = Translator.load(folder / "model", "cpu")
    terminology = Wanted((), (), inflection=False, protect=True).terminology("de-en")
    loaded = time.perf_counter()
    sentences = list(read_lines(folder / "all.de"))
    results = translator.translate(sentences, terminology=terminology, **SEARCH)
    end = time.perf_counter()
    write_text(output, "".join(f"{result}\n" for result in results))
    return loaded - start, len(sentences) / (end - loaded)


def digest(output: Path) -> str:
    """Of all shards in order, or of the one file."""
    files = sorted(output.glob("*.de")) if output.is_dir() else [output]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def measure(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {
        name: {"system": name, "starts": [], "speeds": [], "digests": []} for name in SYSTEMS
    }
    for _, (name, row) in itertools.product(range(options.rounds), rows.items()):
        output, engine = folder / "output", SYSTEMS[name]
        remove(output)
        if engine is None:
            start, speed = run_plain(folder, output)
        else:
            start, speed = run_engine(folder, engine, output, options.chunk_lines)
        row["starts"].append(start)
        row["speeds"].append(speed)
        row["digests"].append(digest(output))
        print(f"{name}: {speed:.1f} sentences/s after {start:.1f} s", flush=True)
    return list(rows.values())


def kill_and_go_on(folder: Path, options: argparse.Namespace, expected: str) -> dict[str, Any]:
    """SIGKILL once a third of the chunks is done, then the same command again."""
    output = folder / "output"
    remove(output)
    words = f"translate --shards {folder / 'corpus'} --output {output} --model {folder / 'model'} --device cpu"
    arguments = [sys.executable, "-m", "termweave", *words.split(), "--workers", "2"]
    arguments += ["--chunk-lines", str(options.chunk_lines)]
    chunks = sum(-(-len(list(read_lines(path))) // options.chunk_lines) for path in (folder / "corpus").iterdir())
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as running:
        while len(list((output / ".shards").glob("*/0*.json"))) < chunks // 3:
            if running.poll() is not None:
                raise SystemExit("it ended before it could be killed; give more --sentences")
            time.sleep(0.01)
        running.kill()
    time.sleep(1)  # its workers end with it; a chunk that was being written may still appear
    kept = len(list((output / ".shards").glob("*/0*.json")))
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    resumed = re.search(r"([\d,]+) sentences from runs before", done.stderr)
    return {
        "chunks": chunks,
        "kept": kept,
        "sentences_from_before": int(resumed[1].replace(",", "")) if resumed else 0,
        "same_output": digest(output) == expected,
    }


def scan(folder: Path) -> float:
    """Lines a second that are checked and cut into chunks before a job starts."""
    path = folder / "scanned.de"
    lines = (folder / "all.de").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(itertools.islice(itertools.cycle(lines), SCANNED)))
    start = time.perf_counter()
    assert sum(piece.rows for piece in TextLines(path, pairs=False).pieces(1000)) == SCANNED
    seconds = time.perf_counter() - start
    path.unlink()
    return SCANNED / seconds


def page(report: dict[str, Any]) -> str:
    rows = []
    for row in report["systems"]:
        speeds, starts = row["speeds"], row["starts"]
        spread = f"{statistics.median(speeds):.1f} ({min(speeds):.1f}–{max(speeds):.1f})"
        rows.append(f"| {row['system']} | {spread} | {statistics.median(starts):.1f} |")
    killed, digests = report["killed"], {name for row in report["systems"] for name in row["digests"]}
    busy = max(report["load"]) > report["cores"]
    caution = "The machine had more to do than cores to do it with: the speeds show that it works, not how it scales."
    lines = [
        "# Shards",
        "",
        "Rendered by `python benchmarks/shards.py` with the JSON file beside this page; do not edit.",
        "",
        f"{report['sentences']:,} generated sentences in {SHARDS} shards, chunks of {report['chunk_lines']}; model of "
        f"{report['dimension']} dimensions, 3 + 3 layers, random weights, beam 4, float32, one thread a process; "
        f"rounds: {report['rounds']}, interleaved: medians and ranges. {report['cores']} cores "
        f"({report['processor']}), other work beside it: "
        f"load {report['load'][0]:.1f} at the start, {report['load'][1]:.1f} at the end. {report['versions']}.",
        "",
        "| system | sentences/s | seconds before the first chunk (plain: to load the model) |",
        "|---|---|---|",
        *rows,
        "",
        *([caution, ""] if busy else []),
        f"Outputs: {'the same to the byte for all' if len(digests) == 1 else 'NOT the same'}. "
        f"Killed (SIGKILL) in the middle: {killed['kept']} of {killed['chunks']} chunks were kept, the next run took "
        f"over {killed['sentences_from_before']:,} sentences, and its output was "
        f"{'the same' if killed['same_output'] else 'NOT the same'}. Before a job starts, its text is checked and cut "
        f"into chunks: {report['lines_scanned_a_second']:,.0f} lines a second.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    options = parse_options()
    if options.render:
        write_text(options.output / "shards.md", page(read_json(options.output / "shards.json")))
        return
    # One thread a process, so that two processes are compared with one and not with two threads of one.
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    before = os.getloadavg()[0]
    make_material(options.folder, options.sentences, options.dimension)
    systems = measure(options.folder, options)
    report = {
        "arguments": sys.argv[1:],
        "sentences": options.sentences,
        "chunk_lines": options.chunk_lines,
        "dimension": options.dimension,
        "rounds": options.rounds,
        "cores": worker_count(0),
        "processor": processor(),
        "versions": ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "ray")),
        "systems": systems,
        "killed": kill_and_go_on(options.folder, options, systems[-1]["digests"][0]),
        "lines_scanned_a_second": scan(options.folder),
        "load": [before, os.getloadavg()[0]],
    }
    print(page(report))
    if not options.tiny:
        write_json(options.output / "shards.json", report)
        write_text(options.output / "shards.md", page(report))


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=1200)
    parser.add_argument("--chunk-lines", type=int, default=50)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("build/shards"), help="for text, model and outputs")
    parser.add_argument("--output", type=Path, default=Path("docs/results"))
    parser.add_argument("--render", action="store_true", help="measure nothing, write the page from the JSON again")
    parser.add_argument("--tiny", action="store_true", help="does it run? one round, a few sentences")
    options = parser.parse_args()
    if options.tiny:
        options.sentences, options.chunk_lines, options.dimension, options.rounds = 200, 10, 16, 1
    options.folder = options.folder.resolve()
    return options


if __name__ == "__main__":
    main()
