"""Turns the JSON of `ready.py` and the ready model itself into MODEL_CARD.md. No figure there is typed by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from render_decode import table
from termweave import storage
from termweave.config import load_config, to_tree
from termweave.model.checkpoint import load_settings, ready_model

CONFIG = Path("configs/ready.toml")
ABOUT = """\
# The ready model

German ↔ English, part of the package: `Translator.load()` and `termweave translate` find it, nothing is downloaded. It
is constraint-aware (variant `{variant}`), so that the terms of a glossary reach it as vectors, and the search
guarantees them.

{shape}: {size:.1f} MiB in all, weights of eight bits. A tag in front of the source says the direction.
"""
RECIPE = """\
## How it was trained

[configs/ready.toml](configs/ready.toml) is the whole recipe: `termweave prepare`, `termweave train`, then
`termweave pack --gate-shift=-2` (why: [decisions](docs/decisions.md#training)). {first:,} steps of stage 1 and
{second:,} of stage 2, {tokens:,} target subwords each at most, took {minutes:.0f} minutes on one GPU.

| text | pairs | licence |
|---|---|---|
| Europarl, debates 1999–2011 | 900,000 | free to reuse |
| user interfaces, manuals and help pages of free software | 720,266 | free software licences, mixed |
| Tatoeba, everyday sentences, three times over | 157,388 | CC-BY 2.0 FR |
| Multi30k, captions, three times over | 28,972 | research |

Sentences of the test sets above were removed from it.
"""
LIMITS = """\
## What to mind

- It is small, and most of what it has read are debates and software. News and everyday language beyond captions and
  short sentences are weaker; the table tells how much.
- It translates sentence by sentence, without what stands around a sentence.
- A guaranteed term stands in the output as it was given: it is not inflected. Give alternatives where forms matter.
- Part of the text may be used for research only; ask before selling a service built on this model rather than on your
  own text.
"""


def render(results: Path, page: Path) -> None:
    parts = [about(ready_model()), *quality(storage.read_json(results / "quality.json"))]
    parts += terms(storage.read_json(results / "terms.json"))
    parts += speed(storage.read_json(results / "speed.json"))
    parts += shapes([storage.read_json(path) for path in sorted(results.glob("shape.*.json"))])
    training = load_config(CONFIG).training
    steps = {"first": training.stage1.steps, "second": training.stage2.steps, "tokens": training.batch_tokens}
    minutes = sum(seconds(path, training.log_every) for path in results.glob("log.*.jsonl")) / 60
    recipe = RECIPE.format(**steps, minutes=minutes)
    storage.write_text(page, "\n".join([*parts, recipe, LIMITS]).rstrip() + "\n")


def seconds(log: Path, every: int) -> float:
    """How long a stage took, by the speeds in its log."""
    return sum(every / json.loads(line)["steps_per_second"] for line in log.read_text(encoding="utf-8").splitlines())


def about(model: Path) -> str:
    own, _ = load_settings(model)
    if own != (config := load_config(CONFIG)).model:
        raise SystemExit(f"{CONFIG} has another [model] than {model}: put in the shape that was trained")
    shape = (
        f"A Transformer of dimension {own.dimension}, {own.encoder_layers} layers in the encoder and "
        f"{own.decoder_layers} in the decoder, {config.subwords.size:,} subwords"
    )
    size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file()) / 2**20
    return ABOUT.format(variant=to_tree(own)["variant"], shape=shape, size=size)


def quality(report: dict[str, Any]) -> list[str]:
    rows = [
        [
            row["direction"],
            row["domain"],
            f"{row['sentences']:,}",
            f"{row['bleu']:.1f}",
            f"{row['chrf']:.1f}",
            f"{row['bleu_in_their_languages']:.1f} ({row['in_their_languages']:,})",
        ]
        for row in report["rows"]
    ]
    signatures = ", ".join(f"`{signature}`" for signature in report["rows"][0]["signatures"])
    return [
        "## Quality",
        "",
        *table(["direction", "domain", "sentences", "BLEU", "chrF", "BLEU of lines in their languages"], rows),
        f"Beam 4, {report['precision']}, no glossary. Debates are `dev.europarl`, software `dev.software`, news",
        "`newstest2014`. In the debates, many lines that should be German are Lithuanian, Greek or Bulgarian: the last",
        f"column leaves out what py3langid is sure of being in another language. Signatures: {signatures}.",
        "",
    ]


def shapes(reports: list[dict[str, Any]]) -> list[str]:
    """What depth and width were chosen by."""
    if not reports:
        return []
    rows = []
    for report in sorted(reports, key=lambda report: -report["mean_bleu"]):
        own = report["shape"]
        sizes = [str(own[name]) for name in ("dimension", "encoder_layers", "decoder_layers", "feed_forward")]
        cells = [f"{row['bleu']:.1f}" for row in report["rows"]]
        rows.append(
            [report["name"], *sizes, f"{report['parameters'] / 2**20:.1f}", *cells, f"{report['mean_bleu']:.2f}"]
        )
    sets = [f"{row['direction']} {row['domain']}" for row in reports[0]["rows"]]
    header = ["shape", "dimension", "encoder", "decoder", "feed-forward", "MiB at eight bits", *sets, "mean"]
    sentences = reports[0]["rows"][0]["sentences"]
    return [
        "## Depth and width",
        "",
        "Shapes of about the same size after a short stage 1 of as many steps each, 1,500 of 65,536 target subwords:",
        f"BLEU on the first {sentences:,} sentences of each set. The size is that with all constraint modules.",
        "",
        *table(header, rows),
        "After so few steps none of them can translate yet: this says which one learns fastest, not which would be",
        "best in the end. The model has that shape and one layer more in its encoder: more does not fit into 32 MiB.",
        "",
    ]


def terms(report: dict[str, Any]) -> list[str]:
    rows = [
        [
            row["direction"],
            row["terms"],
            f"{row['bleu']:.1f}",
            f"{100 * row['met'] / row['total']:.1f} % ({row['met']:,} of {row['total']:,})",
        ]
        for row in report["rows"]
    ]
    sentences = ", ".join(dict.fromkeys(f"{row['sentences']:,} for {row['direction']}" for row in report["rows"]))
    return [
        "## Terms",
        "",
        f"The sentences of `dev.software` in which a term of the software glossary was found ({sentences}).",
        "The shift of the gate and the lengths that outputs may have were chosen on its first 300 and 1,000 lines,",
        "so BLEU is a little flattered here; that all terms are met does not depend on them.",
        "A term is met if it stands in the output as whole words. “In the reference”: those terms alone whose",
        "translation the reference has too.",
        "",
        *table(["direction", "terms", "BLEU", "met"], rows),
    ]


def speed(report: dict[str, Any]) -> list[str]:
    by_clock, by_cpu = report["sentences_per_second"], report["sentences_per_cpu_second"]
    rows = [[name, middle(by_clock[name]), middle(by_cpu[name])] for name in by_clock]
    first = sorted(report["first_translation_seconds"])[1]
    return [
        "## Speed",
        "",
        f"{report['processor']}, {report['threads']} threads, beam 4, int8, as it runs on a CPU by default;",
        f"{report['sentences']:,} sentences of `dev.software`, {report['direction']}, {report['entries']:,} entries,",
        f"{report['terms']:,} terms found and guaranteed.",
        "",
        *table(["", "sentences per second", "sentences per CPU second"], rows),
        f"With the glossary it runs at {report['ratio']:.2f} of the speed without,",
        f"by CPU time {report['cpu_ratio']:.2f}.",
        "That is where the model has met the terms of other text before, as in the middle of a large job: of",
        f"{report['lines_before']:,} lines of the software's training text. Where it has met none at all, it is",
        f"{report['ratio_of_new_terms']:.2f}, by CPU time {report['cpu_ratio_of_new_terms']:.2f}; the same text again,",
        f"{report['ratio_of_same_text']:.2f} and {report['cpu_ratio_of_same_text']:.2f}.",
        "“One batch at a time” is how torch would use several processors: each operation is shared out among them. The",
        f"first translation is there {first:.1f} s after the start of the program. Memory:",
        f"{report['loaded_mebibytes']:,} MiB after loading, {report['peak_mebibytes']:,} MiB at most.",
        "",
    ]


def middle(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f}–{max(values):.1f})"
