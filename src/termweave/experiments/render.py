"""`termweave experiment render`: RESULTS.md and the figures, from the records in a folder and from nothing else."""

from __future__ import annotations

from pathlib import Path

from termweave.experiments import paper, tables
from termweave.experiments.claims import claims
from termweave.experiments.figures import ATTENTION, draw_figures
from termweave.experiments.records import Results
from termweave.storage import write_text

PAGE = "RESULTS.md"
CASES = "cases/CASES.md"  # sentences of test sets are not ours to publish: .gitignore names this folder

_SECTIONS = (
    ("The paper's claims", claims),
    ("Main results", tables.main_results),
    ("Without constraints, and with easy ones", tables.other_constraints),
    ("Ablation", tables.ablation),
    ("Code-switched translation", tables.switched_results),
    ("Inference speed", tables.speed),
    ("Calibration", tables.calibration),
    ("Overlap with training", tables.overlap),
    ("Case study", tables.cases),
    ("Training", tables.training),
    ("Where the figures come from", tables.provenance),
)


def render(root: Path) -> Path:
    """Write the page and whatever figures can be drawn; return the page."""
    results = Results.open(root)
    parts = [
        f"# Results: {results.plan['name']}, {tables.arrow(results.direction)}",
        "Rendered by `termweave experiment render` from the records beside this page; do not edit. Figures of the "
        f"paper ({paper.SOURCE}) stand beside ours under its own names of the methods; {tables.ABSENT} means: not "
        "measured, or not in the paper.",
    ]
    drawn = draw_figures(results)
    for title, section in _SECTIONS:
        found = section(results)
        parts += [f"## {title}", *found] if found else []
        parts += [f"![{caption}]({file})" for owner, file, caption in drawn if owner == title]
    write_text(root / PAGE, "\n\n".join(parts) + "\n")
    if results.get("cases") is not None:
        texts = ["# Case study", *tables.case_texts(results)]
        if (root / ATTENTION).exists():
            texts.append(f"![Attention to the constraints of the first sentence]({Path(ATTENTION).name})")
        write_text(root / CASES, "\n\n".join(texts) + "\n")
    return root / PAGE
