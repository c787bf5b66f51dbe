"""The server under load: `termweave serve` as a process of its own, driven by wrk (`apt install wrk`).

    python benchmarks/serve.py --model runs/toy/model/stage2/final --text runs/toy/test.de --output toy.json
    python benchmarks/serve.py --text runs/newstest2013.de runs/newstest2013.en --output base.json

Without a model, it is a Transformer-base of random weights with a vocabulary learned from the text: outputs go on to
their limit, so speed is that of long ones. What is sent are short lines of the first text, one in each request.

1. Batching against one by one (`--batch-tokens 1`), with the same clients, and one client against many, in turns.
2. A crowd: many clients for a minute; what was sent against what was answered and what the server counted; memory.
3. Overload: the same crowd before a short queue; who is refused comes again when told. Another client looks how long a
   refusal takes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import torch
from prometheus_client.parser import text_string_to_metric_families

import termweave
from decode import processor
from termweave.config import ModelConfig
from termweave.model.checkpoint import save_checkpoint
from termweave.model.transformer import Transformer
from termweave.text.subwords import Subwords

SCRIPT = Path(__file__).with_name("load.lua")
VOCABULARY = 32000
WORDS = (4, 12)  # of the lines that are sent
DRAIN = 300  # seconds after the last request was sent; an answer that takes longer is lost
MOMENT = 10  # seconds, in which memory is averaged
ONE_BY_ONE = ("--batch-tokens", "1", "--patience", "0")

Record = dict[str, Any]


class Server:
    """A running `termweave serve`."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address

    @property
    def mebibytes(self) -> float:
        """Resident memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def counters(self) -> dict[str, float]:
        """Its own figures: batches, sentences, and answers of the route by status."""
        found = {}
        for family in text_string_to_metric_families(httpx.get(self.address + "/metrics").text):
            for sample in family.samples:
                if sample.name == "termweave_requests_total" and sample.labels["route"] == "/v2/translate":
                    found[sample.labels["status"]] = sample.value
                elif not sample.labels:
                    found[sample.name] = sample.value
        return found


@contextmanager
def serving(options: argparse.Namespace, *arguments: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "termweave", "serve", "--model", options.model, "--port", "0"]
        command += ["--store", Path(folder) / "store.sqlite", "--precision", options.precision, "--device", "cpu"]
        with subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True) as process:
            try:
                yield Server(process, _address(process))
            finally:
                process.terminate()
                process.wait()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    address = ""
    for line in process.stderr:
        record = json.loads(line)
        address = record.get("address", address)
        if "startup complete" in record["event"]:
            # Nobody reads what follows, and a full pipe would stop the server.
            threading.Thread(target=_swallow, args=(process.stderr,), daemon=True).start()
            return address
    raise SystemExit("the server did not start; its message stands above")


def _swallow(lines: Iterator[str]) -> None:
    for _ in lines:
        pass


def load(server: Server, bodies: Path, clients: int, seconds: float) -> Record:
    """Send for so long with so many clients, and count; the server's counters grew by as much meanwhile."""
    before = server.counters()
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds + DRAIN:g}s", f"--timeout={DRAIN}s", "-s", SCRIPT]
    command += [server.address, "--", bodies, f"{seconds}"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        raise SystemExit(f"wrk failed: {finished.stderr or finished.stdout}")
    record: Record = json.loads(finished.stdout.splitlines()[-1])
    grown = {name: value - before.get(name, 0.0) for name, value in server.counters().items()}
    batches = max(grown.get("termweave_batches_total", 0.0), 1.0)
    return {
        "clients": clients,
        "seconds": seconds,
        **record,
        "a_second": record["answered"] / record["last_answer"],
        "server_statuses": {name: int(value) for name, value in grown.items() if name.isdigit() and value},
        "sentences_a_batch": grown.get("termweave_sentences_total", 0.0) / batches,
        "decoding_share": grown.get("termweave_decoding_seconds_total", 0.0) / record["last_answer"],
    }


def measure_batching(options: argparse.Namespace, bodies: Path) -> list[Record]:
    """Interleaved rounds, so that whatever else the machine does meets all of them alike."""
    records = []
    with serving(options) as together, serving(options, *ONE_BY_ONE) as single:
        kinds = (
            ("one by one", single, options.few),
            ("batching", together, options.few),
            ("batching", together, 1),
        )
        for number in range(options.rounds + 1):
            for name, server, clients in kinds:
                seconds = options.round_seconds if number else 1  # the first round is thrown away
                record = {"kind": name, **load(server, bodies, clients, seconds)}
                if number:
                    records.append(record)
                    say(f"round {number}, {name}, {clients} clients: {record['a_second']:.1f} a second")
    return records


def measure_crowd(options: argparse.Namespace, bodies: Path) -> Record:
    with serving(options) as server:
        stop, samples = threading.Event(), []

        def sample() -> None:
            while not stop.wait(1):
                samples.append(round(server.mebibytes, 1))

        sampling = threading.Thread(target=sample)
        sampling.start()
        try:
            record = load(server, bodies, options.clients, options.warm_up + options.seconds)
        finally:
            stop.set()
            sampling.join()
    # At first, memory is claimed; after the last request was sent, batches get smaller.
    steady = samples[int(options.warm_up) : int(options.warm_up + options.seconds)]
    moment = min(MOMENT, max(1, len(steady) // 2))
    first, last = statistics.mean(steady[:moment]), statistics.mean(steady[-moment:])
    say(f"{options.clients} clients: {record['statuses']}, memory {first:.1f} → {last:.1f} MiB")
    memory = {"mebibytes": samples, "first_mebibytes": first, "last_mebibytes": last, "warm_up": options.warm_up}
    return {**record, **memory, "highest_mebibytes": max(steady)}


def measure_overload(options: argparse.Namespace, bodies: Path) -> Record:
    body = bodies.read_text(encoding="utf-8").splitlines()[0]
    with serving(options, "--queue-tokens", str(options.queue_tokens)) as server:
        stop, refusals = threading.Event(), []

        def look() -> None:
            headers = {"Content-Type": "application/json"}
            with httpx.Client(base_url=server.address, timeout=DRAIN) as client:
                while not stop.wait(0.05):
                    started = time.monotonic()
                    answer = client.post("/v2/translate", content=body, headers=headers)
                    if answer.status_code == 503:
                        refusals.append(1000 * (time.monotonic() - started))

        looking = threading.Thread(target=look)
        looking.start()
        try:
            record = load(server, bodies, options.clients, options.round_seconds)
        finally:
            stop.set()
            looking.join()
        headers = {"Content-Type": "application/json"}
        after = httpx.post(server.address + "/v2/translate", content=body, headers=headers, timeout=DRAIN)
        record["after"] = {
            "health": httpx.get(server.address + "/health").json()["status"],
            "translation": after.status_code,
            "queued": server.counters()["termweave_queued_requests"],
        }
    say(f"overload: {record['statuses']}, afterwards {record['after']}")
    refusals.sort()
    at = {f"refused_p{share}": refusals[len(refusals) * share // 100] for share in (50, 95, 99) if refusals}
    return {**record, "queue_tokens": options.queue_tokens, "refusals_timed": len(refusals), **at}


def make_base(folder: Path, texts: list[Path]) -> Path:
    """A Transformer-base with modules for constraints, random weights, and a real vocabulary."""
    config = ModelConfig(variant="copy")
    tokenizer = folder / "tokenizer.model"
    lines = [line for path in texts for line in path.read_text(encoding="utf-8").splitlines()]
    subwords = Subwords.train(lines, tokenizer, size=VOCABULARY, languages=["de", "en"])
    torch.manual_seed(1)
    model = Transformer(config, subwords.size, Subwords.pad)
    save_checkpoint(folder / "base", model.state_dict(), config, ["de-en"], tokenizer)
    return folder / "base"


def write_bodies(path: Path, text: Path) -> None:
    least, most = WORDS
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if least <= len(line.split()) <= most]
    bodies = [json.dumps({"text": [line], "source_lang": "DE", "target_lang": "EN"}) for line in lines]
    path.write_text("\n".join(bodies) + "\n", encoding="utf-8")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    options = parse_options()
    with tempfile.TemporaryDirectory() as folder:
        bodies = Path(folder) / "bodies"
        write_bodies(bodies, options.text[0])
        told = options.model
        options.model = options.model or make_base(Path(folder), options.text)
        report = {
            "arguments": sys.argv[1:],
            "processor": processor(),
            "cores": os.cpu_count(),
            "load_before": os.getloadavg()[0],  # what else the machine does
            "versions": f"termweave {termweave.__version__}, torch {torch.__version__}, {options.precision}",
            "model": "trained" if told else "random Transformer-base",
            "batching": measure_batching(options, bodies),
            "crowd": measure_crowd(options, bodies),
            "overload": measure_overload(options, bodies),
        }
    written = json.dumps(report, indent=1) + "\n"
    if options.output:
        options.output.write_text(written, encoding="utf-8")
    else:
        print(written)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="model folder for de-en; default: random weights")
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="lines to send, and to learn subwords from")
    parser.add_argument("--precision", default="float32", choices=["float32", "bfloat16", "int8"])
    parser.add_argument("--clients", type=int, default=200, help="of the crowd")
    parser.add_argument("--seconds", type=float, default=60, help="that the crowd sends")
    parser.add_argument("--few", type=int, default=32, help="clients that batching is measured with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--round-seconds", type=float, default=10, help="of everything but the crowd")
    parser.add_argument("--warm-up", type=float, default=30, help="seconds that the crowd sends before these")
    parser.add_argument("--queue-tokens", type=int, default=500, help="of the queue that overflows")
    parser.add_argument("--output", type=Path, help="write the report here as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
