"""The figures, drawn from the records with matplotlib, where it is installed (`pip install 'termweave[figures]'`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from termweave.experiments.records import Results
from termweave.experiments.tables import test_sets
from termweave.storage import atomic_path

Figure = Any  # matplotlib is optional, and so are its types
Drawn = tuple[str, str, str]  # the section it stands in, the file, the caption
ATTENTION = "cases/attention.svg"
_SIZE = (6.4, 4.2)


def can_draw() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def draw_figures(results: Results) -> list[Drawn]:
    """Every figure there are records for. Without matplotlib: none."""
    if not can_draw():
        return []
    drawn: list[Drawn] = []
    for test_set in test_sets(results, "hard"):
        name = test_set["name"]
        scatter, diagrams = f"figures/bleu-csr.{name}.svg", f"figures/reliability.{name}.svg"
        if _draw(results, scatter, _bleu_and_csr, name):
            drawn.append(("Main results", scatter, f"BLEU against CSR, {name}"))
        if _draw(results, diagrams, _reliability, name):
            drawn.append(("Calibration", diagrams, f"Reliability diagrams, {name}"))
    if _draw(results, "figures/speed.svg", _speed):
        drawn.append(("Inference speed", "figures/speed.svg", "Speed against batch size"))
    # It shows subwords of a test sentence, so it stays with the case study's text and out of the page.
    _draw(results, ATTENTION, _attention)
    return drawn


def _draw(results: Results, file: str, draw: Callable[[Results, Figure, str], bool], test_set: str = "") -> bool:
    """Write a figure; False if there are no records for it."""
    # The object-oriented interface: no window system, no state that other code could change.
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=_SIZE, layout="constrained")
    if not draw(results, canvas, test_set):
        return False
    # Without a date, and with fixed identifiers, the same records give the same file.
    with atomic_path(results.root / file) as temporary, rc_context({"svg.hashsalt": file}):
        canvas.savefig(temporary, format="svg", metadata={"Date": None})
    return True


def _bleu_and_csr(results: Results, canvas: Figure, test_set: str) -> bool:
    axes = canvas.add_subplot()
    shown = False
    for system in results.systems("main"):
        scores = results.get(f"score.{system['name']}.{test_set}.hard")
        if scores is None or scores["csr_phrase_level"] is None:
            continue
        constrained = system["search"] != "beam"
        # Names beside the points would lie upon each other: the best systems crowd in one corner.
        axes.scatter(
            scores["csr_phrase_level"],
            scores["bleu"],
            label=system["name"],
            marker="s" if constrained else "o",
            alpha=0.8,
        )
        shown = True
    axes.set(xlabel="CSR, %", ylabel="BLEU", xlim=(0, 102))
    if shown:
        canvas.legend(loc="outside right center", fontsize=8, title_fontsize=8, title="squares:\nconstrained search")
    return shown


def _reliability(results: Results, canvas: Figure, test_set: str) -> bool:
    axes = canvas.add_subplot()
    axes.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    shown = False
    for system in results.systems("calibration"):
        found = results.get(f"calibrate.{system['name']}.{test_set}")
        if found is None:
            continue
        bins = [each for each in found["bins"] if each["tokens"]]
        label = f"{system['name']} (ECE {found['inference_ece']:.1f})"
        axes.plot([each["probability"] for each in bins], [each["accuracy"] for each in bins], marker=".", label=label)
        shown = True
    axes.set(xlabel="probability of a token", ylabel="share of tokens that are right")
    if shown:
        axes.legend(fontsize=8)
    return shown


def _speed(results: Results, canvas: Figure, _: str) -> bool:
    axes = canvas.add_subplot()
    shown = False
    for system in results.systems("speed"):
        found = results.get(f"speed.{system['name']}")
        if found is None:
            continue
        sizes = [row["batch"] for row in found["batches"]]
        axes.plot(sizes, [row["sentences_per_second"] for row in found["batches"]], marker="o", label=system["name"])
        shown = True
    axes.set(xlabel="sentences in a batch", ylabel="sentences a second", xscale="log", yscale="log")
    batches = results.plan["speed"]["batches"]
    axes.set_xticks(batches, batches)
    axes.minorticks_off()
    if shown:
        axes.legend(fontsize=8)
    return shown


def _attention(results: Results, canvas: Figure, _: str) -> bool:
    heat = results.get("attention")
    if not heat or not heat["constraints"]:
        return False
    axes = canvas.add_subplot()
    image = axes.imshow(heat["weights"], aspect="auto", cmap="viridis")
    axes.set_xticks(range(len(heat["constraints"])), heat["constraints"], rotation=45, ha="right", fontsize=7)
    axes.set_yticks(range(len(heat["output"])), heat["output"], fontsize=7)
    axes.set(xlabel="sources of the constraints", ylabel=f"output of {heat['system']}")
    canvas.colorbar(image, ax=axes)
    return True
