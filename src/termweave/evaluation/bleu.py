"""BLEU and chrF of a whole test set, by sacreBLEU, with the signatures that make them comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from termweave.errors import DataError

_TOKENISERS = {"zh": "zh", "ja": "char"}  # languages without spaces; all others: 13a, the standard of WMT


@dataclass(frozen=True)
class CorpusScore:
    """A figure and the signature of how it came about."""

    name: str
    value: float  # 0 to 100
    signature: str


def bleu_metric(target_language: str) -> BLEU:
    """sacreBLEU's, with the tokeniser the language asks for."""
    return BLEU(tokenize=_TOKENISERS.get(target_language, "13a"))


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> CorpusScore:
    require_parallel(hypotheses, references)
    metric = bleu_metric(target_language)
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return CorpusScore("BLEU", float(value), str(metric.get_signature()))


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> CorpusScore:
    require_parallel(hypotheses, references)
    metric = CHRF()
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return CorpusScore("chrF2", float(value), str(metric.get_signature()))


def require_parallel(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} translations cannot be compared with {len(references)} references; "
            "translate exactly the sentences of the set, one line each"
        )
    if not hypotheses:
        raise DataError("there is nothing to evaluate: the set has no sentences")
