"""All scores of one system on one evaluation set, with the signature that says what they are scores of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from termweave.constraints.evaluation_sets import ConstrainedSentence, read_constraint_set
from termweave.data.readers import read_lines
from termweave.errors import DataError
from termweave.evaluation.bleu import CorpusScore, corpus_bleu, corpus_chrf
from termweave.evaluation.csr import SuccessRate, success_rate
from termweave.text.words import UNSPACED_LANGUAGES


@dataclass(frozen=True)
class Scores:
    """What `termweave evaluate` prints."""

    sentences: int
    bleu: CorpusScore
    chrf: CorpusScore
    success: SuccessRate
    signature: str  # provenance of the translations, then the signatures of the metrics

    def to_json(self) -> dict[str, object]:
        return {
            "sentences": self.sentences,
            "bleu": self.bleu.value,
            "chrf": self.chrf.value,
            "csr_phrase_level": self.success.phrase_level,
            "csr_word_weighted": self.success.word_weighted,
            "constraints_met": self.success.met,
            "constraints": self.success.total,
            "constraint_words_met": self.success.met_words,
            "constraint_words": self.success.total_words,
            "signature": self.signature,
        }

    def __str__(self) -> str:
        success = self.success
        rows = [
            ("BLEU", f"{self.bleu.value:.1f}"),
            ("chrF2", f"{self.chrf.value:.1f}"),
            ("CSR, phrase-level", _share(success.phrase_level, success.met, success.total, "constraints")),
            ("CSR, word-weighted", _share(success.word_weighted, success.met_words, success.total_words, "words")),
            ("signature", self.signature),
        ]
        return "\n".join(f"{name:<19} {value}" for name, value in rows)


def _share(percentage: float | None, met: int, total: int, what: str) -> str:
    return "no constraints" if percentage is None else f"{percentage:.1f} % ({met:,} of {total:,} {what})"


def evaluate(
    hypotheses: Sequence[str],
    sentences: Sequence[ConstrainedSentence],
    target_language: str,
    provenance: Mapping[str, str] | None = None,
) -> Scores:
    """Score translations of an evaluation set.

    `provenance` (data, constraint set, checkpoint, beam, seed and the like) becomes part of the signature.
    """
    references = [sentence.target for sentence in sentences]
    bleu = corpus_bleu(hypotheses, references, target_language)
    chrf = corpus_chrf(hypotheses, references)
    success = success_rate(hypotheses, [sentence.constraints for sentence in sentences], target_language)
    unit = "characters" if target_language in UNSPACED_LANGUAGES else "words"
    parts = [f"{key}:{value}" for key, value in (provenance or {}).items()]
    parts += [f"{score.name}|{score.signature}" for score in (bleu, chrf)]
    parts.append(f"CSR|case:mixed|match:whole-{unit}")
    return Scores(len(sentences), bleu, chrf, success, "; ".join(parts))


def read_translations(path: Path, constraint_set: Path, sentences: int) -> list[str]:
    """Finished translations, one line for each sentence of the set."""
    lines = list(read_lines(path))
    if len(lines) != sentences:
        raise DataError(
            f"{path} has {len(lines)} lines, but {constraint_set} has {sentences} sentences; "
            "translate exactly the sentences of the set, one line each"
        )
    return lines


def evaluate_files(
    hypotheses: Path, constraint_set: Path, target_language: str, provenance: Mapping[str, str] | None = None
) -> Scores:
    """The whole work of `termweave evaluate` on finished translations: one line per sentence of the set."""
    sentences = read_constraint_set(constraint_set)
    known = {"translations": hypotheses.name, "set": constraint_set.name, **(provenance or {})}
    return evaluate(list(read_lines(hypotheses)), sentences, target_language, known)
