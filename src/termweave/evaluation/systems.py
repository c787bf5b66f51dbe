"""Measuring a whole system on a constraint set: translate, then score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from termweave import storage
from termweave.constraints.constraint import Constraint
from termweave.constraints.evaluation_sets import ConstrainedSentence, read_constraint_set
from termweave.decoding.options import Search
from termweave.decoding.translator import Translation, Translator
from termweave.errors import ConfigError, DataError
from termweave.evaluation.calibration import BINS, Calibration, judge, measure_calibration
from termweave.evaluation.scores import Scores, evaluate, evaluate_files, read_translations


@dataclass(frozen=True)
class Setting:
    """How a set is translated."""

    languages: str | None = None  # the model's first direction
    with_constraints: bool = True
    search: Search = "vdba"
    beam: int = 4
    batch_tokens: int = 4096
    device: str = "auto"

    def constraints(self, sentences: Sequence[ConstrainedSentence]) -> list[tuple[Constraint, ...]]:
        """What the system is given, sentence by sentence."""
        return [sentence.constraints if self.with_constraints else () for sentence in sentences]

    def provenance(self, model: Path, constraint_set: Path) -> dict[str, str]:
        return {
            "model": "/".join(model.parts[-3:]),
            "set": constraint_set.name,
            "constraints": "given" if self.with_constraints else "withheld",
            "search": self.search,
            "beam": str(self.beam),
        }


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
    setting = Setting(direction, with_constraints, search, beam, batch_tokens, device)
    outputs = [result.text for result in _translate(translator, sentences, setting)]
    if save is not None:
        storage.write_text(save, "".join(output + "\n" for output in outputs))
    return evaluate(outputs, sentences, direction.partition("-")[2], setting.provenance(model, constraint_set))


def calibrate_system(
    constraint_set: Path, model: Path, setting: Setting, *, hypotheses: Path | None = None
) -> Calibration:
    """The whole work of `termweave calibration`: translate the set, or take `hypotheses`, and measure P of every token.

    Which tokens are constrained is looked up in the set, also if the constraints are withheld from the system.
    """
    sentences = read_constraint_set(constraint_set)
    if not sentences:
        raise DataError(f"{constraint_set} has no sentences; there is nothing to calibrate")
    translator = Translator.load(model, setting.device)
    direction = setting.languages or translator.directions[0]
    provenance = setting.provenance(model, constraint_set)
    outputs: Sequence[str | Translation]
    if hypotheses is None:
        outputs = _translate(translator, sentences, setting)
    else:
        outputs = read_translations(hypotheses, constraint_set, len(sentences))
        del provenance["search"], provenance["beam"]
        provenance["translations"] = hypotheses.name
    scored = translator.token_probabilities(
        [sentence.source for sentence in sentences],
        outputs,
        setting.constraints(sentences),
        direction=direction,
        batch_tokens=setting.batch_tokens,
    )
    language = direction.partition("-")[2]
    judged = [
        judge(output, sentence.target, sentence.constraints, language, translator.subwords)
        for output, sentence in zip(scored, sentences, strict=True)
    ]
    parts = [f"{key}:{value}" for key, value in provenance.items()]
    return measure_calibration(judged, "; ".join([*parts, f"ECE|bins:{BINS}|tokens:subwords|correct:TER"]))


def _translate(translator: Translator, sentences: Sequence[ConstrainedSentence], setting: Setting) -> list[Translation]:
    return translator.translate(
        [sentence.source for sentence in sentences],
        setting.constraints(sentences),
        direction=setting.languages or translator.directions[0],
        search=setting.search,
        beam=setting.beam,
        batch_tokens=setting.batch_tokens,
        progress=True,
    )
