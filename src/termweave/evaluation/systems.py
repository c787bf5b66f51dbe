"""Scoring a whole system on a constraint set: translate, then measure."""

from __future__ import annotations

from pathlib import Path

from termweave import storage
from termweave.constraints.evaluation_sets import read_constraint_set
from termweave.decoding.translator import Search, Translator
from termweave.errors import ConfigError
from termweave.evaluation.scores import Scores, evaluate, evaluate_files


def evaluate_system(
    constraint_set: Path,
    *,
    model: Path | None = None,
    hypotheses: Path | None = None,
    languages: str | None = None,
    with_constraints: bool = True,
    save: Path | None = None,
    search: Search = "vdba",
    beam: int = 4,
    batch_tokens: int = 4096,
    device: str = "auto",
) -> Scores:
    """Score `model` (a folder) or finished `hypotheses` (a file, one translation a line)."""
    if (model is None) == (hypotheses is None):
        raise ConfigError("give either --model or --hypotheses")
    if hypotheses is not None:
        target_language = (languages or "").partition("-")[2]
        if not target_language:
            raise ConfigError("--hypotheses needs --languages, such as de-en: words are counted by language")
        return evaluate_files(hypotheses, constraint_set, target_language)
    assert model is not None
    sentences = read_constraint_set(constraint_set)
    translator = Translator.load(model, device)
    direction = languages or translator.directions[0]
    results = translator.translate(
        [sentence.source for sentence in sentences],
        [sentence.constraints if with_constraints else () for sentence in sentences],
        direction=direction,
        search=search,
        beam=beam,
        batch_tokens=batch_tokens,
        progress=True,
    )
    outputs = [result.text for result in results]
    if save is not None:
        storage.write_text(save, "".join(output + "\n" for output in outputs))
    provenance = {
        "model": "/".join(model.parts[-3:]),
        "set": constraint_set.name,
        "constraints": "given" if with_constraints else "withheld",
        "search": search,
        "beam": str(beam),
    }
    return evaluate(outputs, sentences, direction.partition("-")[2], provenance)
