"""The first real run, De→En: what `docs/results/first-run.md` reports, measured here and rendered from JSON.

    python benchmarks/first_run.py links    CONFIG            # on any machine: word links of dev.europarl
    python benchmarks/first_run.py train    CONFIG stage1 --steps 8500
    python benchmarks/first_run.py train    CONFIG vanilla copy --steps 3000
    python benchmarks/first_run.py sets     CONFIG            # needs `vanilla`: makes `all` and `hard`
    python benchmarks/first_run.py evaluate CONFIG vanilla copy …                  # plain beam search
    python benchmarks/first_run.py evaluate CONFIG vanilla copy … --search vdba    # constraints guaranteed
    python benchmarks/first_run.py collect  --run NAME        # from results/de-en, see experiments/de-en.toml
    python benchmarks/first_run.py interruptions              # on any machine: killed runs, two processes
    python benchmarks/first_run.py render

`termweave experiment run` trains the same systems with the same settings; `collect` takes what it has measured. The
systems are `vanilla` (stage 1 continued), `paper`, `released` and `copy`, all started from the same stage 1 and trained
for as many steps. `copy@name` is another `copy` beside it, for trials with other `--set`. With `--seconds`, training
stops cleanly after so long; the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch

from termweave import storage
from termweave.config import Config, load_config, to_tree
from termweave.constraints.evaluation_sets import ConstraintSetOptions, make_constraint_set, read_constraint_set
from termweave.data.readers import read_together
from termweave.data.test_sets import learn_links, make_test_constraints
from termweave.decoding.options import Search
from termweave.decoding.translator import Translator
from termweave.evaluation.scores import evaluate
from termweave.experiments.records import Results
from termweave.training.stages import train

RESULTS = Path("docs/results/first-run")  # one folder a run below it
SYSTEMS = {
    "vanilla": ["model.attention=false", "model.output=false"],
    "paper": ["model.variant=paper"],
    "released": ["model.variant=released"],
    "copy": ["model.variant=copy"],
}
TEST_SETS = ("rwth508", "europarl", "bicici100")
OPTIONS = ConstraintSetOptions("de", "en", seed=1)
LINKED = {"rwth508": "test.rwth508", "bicici100": "gold.bicici100"}  # test sets that come tokenised and with links


def run_folder(config: Config) -> Path:
    return Path(config.training.folder).parent


def learn_dev_links(config: Config, text: Path, pairs: int) -> None:
    lines = list(read_together(text / "dev.europarl.de.xz", text / "dev.europarl.en.xz"))
    rows = learn_links(lines, Path(config.data.folder), ("de", "en"), pairs)
    storage.write_json(text / "dev.europarl.links.json", rows)


def stage_model(config: Config, system: str) -> Path:
    stage = "stage1" if system == "stage1" else "stage2"
    return run_folder(config) / system / stage / "final"


def train_system(
    path: Path, system: str, seconds: float, steps: int, device: str, extra: list[str], results: Path
) -> None:
    started = time.monotonic()
    base = load_config(path, extra)
    folder = run_folder(base) / system
    stage = "stage1" if system == "stage1" else "stage2"
    settings = [*extra, f'training.folder="{folder}"', 'validation.file=""']
    if system != "stage1":
        settings += [*SYSTEMS[system.partition("@")[0]], f'training.start_from="{stage_model(base, "stage1")}"']
    if steps:
        settings.append(f"training.{stage}.steps={steps}")
    config = load_config(path, settings)
    result = train(config, stage=stage[-1], device=device, max_seconds=seconds or None)  # type: ignore[arg-type]
    if result.model is None:
        print(f"{system}: stopped after {time.monotonic() - started:.0f} s; the same command goes on", flush=True)
        return
    log = [json.loads(line) for line in (folder / stage / "log.jsonl").read_text().splitlines()]
    record = {
        "system": system,
        "steps": log[-1]["step"],
        "target_tokens_per_second": sorted(row["tokens_per_second"] for row in log)[len(log) // 2],
        "steps_per_second": sorted(row["steps_per_second"] for row in log)[len(log) // 2],
        "first_loss": log[0]["loss"],
        "last_loss": log[-1]["loss"],
        "wall_seconds": round(time.monotonic() - started),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU",
        "torch": torch.__version__,
        "norm": config.model.norm,
        "batch_tokens": config.training.batch_tokens,
        "empty_share": config.sampling.empty_share,
        "stage": to_tree(getattr(config.training, stage)),
        "model": str(result.model),
    }
    storage.write_json(results / f"train.{system}.json", record)
    print(json.dumps(record), flush=True)


def make_sets(config: Config, text: Path, device: str, batch_tokens: int) -> None:
    """`all` and `hard` of the test sets; hard is what the vanilla model's greedy output does not contain."""
    folder = run_folder(config) / "sets"
    vanilla = Translator.load(stage_model(config, "vanilla"), device)
    for name in TEST_SETS:
        make_set(folder / f"{name}.all.jsonl", name, text, None)
        sources = [row.source for row in read_constraint_set(folder / f"{name}.all.jsonl")]
        greedy = vanilla.translate(sources, beam=1, batch_tokens=batch_tokens)
        storage.write_text(folder / f"{name}.greedy", "".join(f"{output}\n" for output in greedy))
        make_set(folder / f"{name}.hard.jsonl", name, text, folder / f"{name}.greedy")


def make_set(output: Path, name: str, text: Path, greedy: Path | None) -> None:
    if name in LINKED:
        source, target, links = [text / f"{LINKED[name]}.{end}" for end in ("de", "en", "links")]
        make_test_constraints(source, target, output, OPTIONS, links=links, hard_against=greedy)
        return
    lines = list(read_together(text / "dev.europarl.de.xz", text / "dev.europarl.en.xz"))
    columns = [line[0] for line in lines], [line[1] for line in lines]
    hard = greedy.read_text(encoding="utf-8").splitlines() if greedy else None
    links = storage.read_json(text / "dev.europarl.links.json")
    make_constraint_set(output, *columns, links, OPTIONS, tokenised=False, hard_against=hard)


def evaluate_system(
    config: Config, system: str, device: str, batch_tokens: int, search: Search, results: Path, test_sets: list[str]
) -> None:
    translator = Translator.load(stage_model(config, system), device)
    for name in test_sets:
        evaluate_test_set(translator, system, name, run_folder(config), batch_tokens, search, results)


def evaluate_test_set(
    translator: Translator, system: str, name: str, run: Path, batch_tokens: int, search: Search, results: Path
) -> None:
    """Translate the test set in all its kinds. A plain model under plain search knows no constraints: one output."""
    outputs: list[str] = []
    seconds = 0.0
    for kind in ("none", "all", "hard") if search == "beam" else ("all", "hard"):
        rows = read_constraint_set(run / "sets" / f"{name}.{'all' if kind == 'none' else kind}.jsonl")
        given = kind != "none" and (translator.takes_constraints or search == "vdba")
        if given or not outputs:
            started = time.monotonic()
            translations = translator.translate(
                [row.source for row in rows],
                [row.constraints if given else () for row in rows],
                search=search,
                beam=4,
                batch_tokens=batch_tokens,
            )
            seconds = time.monotonic() - started
            outputs = [translation.text for translation in translations]
        called = system if search == "beam" else f"{system}+{search}"
        storage.write_text(run / "outputs" / f"{called}.{name}.{kind}", "".join(f"{line}\n" for line in outputs))
        provenance = {
            "model": system,
            "set": f"{name}.{kind}",
            "search": search,
            "beam": "4",
            "seed": str(OPTIONS.seed),
        }
        scores = evaluate(outputs, rows, "en", provenance).to_json()
        record = {"system": called, "test_set": name, "constraints_given": kind, "seconds": round(seconds, 1)} | scores
        storage.write_json(results / f"{called}.{name}.{kind}.json", record)
        csr = scores["csr_phrase_level"]
        print(f"{called:9} {name:9} {kind:5} BLEU {scores['bleu']:.2f} CSR {csr:.2f} ({seconds:.1f} s)", flush=True)


def collect(results: Path, run: Path) -> None:
    """Records of `termweave experiment run` as records of a run."""
    found = Results.open(results)
    for step, record in found.records.items():
        what, _, place = step.partition(".")
        name = place.replace("vanilla-base", "vanilla")
        if place.startswith("vanilla") and not place.startswith("vanilla-base"):
            continue  # the larger one
        if what == "train" and name in ("stage1", *SYSTEMS):
            storage.write_json(run / f"train.{name}.json", _training(name, record))
        elif what == "score" and name.partition("+")[0].partition(".")[0] in SYSTEMS and not name.endswith("switched"):
            system, test_set, kind = name.split(".")
            seconds = found.records[f"decode.{place}"]["result"]["translating_seconds"]
            about = {"system": system, "test_set": test_set, "constraints_given": kind, "seconds": seconds}
            storage.write_json(run / f"{name}.json", about | record["result"])


def _training(system: str, record: dict[str, Any]) -> dict[str, Any]:
    settings = record["settings"]
    return {
        "system": system,
        **record["result"],
        "wall_seconds": round(record["seconds"]),
        "device": record["machine"],
        "torch": record["versions"]["torch"],
        "norm": settings["model"]["norm"],
        "batch_tokens": settings["training"]["batch_tokens"],
        "empty_share": settings.get("sampling", {}).get("empty_share"),
        "stage": settings["stage"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["links", "train", "sets", "evaluate", "collect", "interruptions", "render"])
    parser.add_argument("config", type=Path, nargs="?", default=Path("configs/de-en.toml"))
    parser.add_argument("systems", nargs="*", help="stage1, vanilla, paper, released, copy")
    parser.add_argument("--run", default="main", help="name of the folder the results go to")
    parser.add_argument("--text", type=Path, default=Path("carry/de-en"), help="folder of the test sets")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop training cleanly after so long; 0: never")
    parser.add_argument("--steps", type=int, default=0, help="train so many steps")
    parser.add_argument("--pairs", type=int, default=450_000, help="training pairs aligned with dev.europarl")
    parser.add_argument("--search", default="beam", choices=["beam", "vdba"], help="vdba guarantees constraints")
    parser.add_argument("--test-sets", nargs="+", default=TEST_SETS, choices=TEST_SETS, help="evaluate on these alone")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    if options.what == "render":
        from render_first_run import render

        render(RESULTS, Path("docs/results/align.json"), Path("docs/results/first-run.md"))
        return
    if options.what == "interruptions":
        from interruptions import STEPS, measure

        measure(RESULTS / "interruptions.json", options.steps or STEPS)
        return
    results = RESULTS / options.run
    if options.what == "collect":
        collect(Path("results/de-en"), results)
        return
    config = load_config(options.config, options.settings)
    if options.what == "links":
        learn_dev_links(config, options.text, options.pairs)
    elif options.what == "train":
        for system in options.systems:
            train_system(
                options.config, system, options.seconds, options.steps, options.device, options.settings, results
            )
    elif options.what == "sets":
        make_sets(config, options.text, options.device, options.batch_tokens)
    else:
        for system in options.systems:
            evaluate_system(
                config, system, options.device, options.batch_tokens, options.search, results, options.test_sets
            )


if __name__ == "__main__":
    main()
