"""The paper's claims, each held against our figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from termweave.experiments.records import Results
from termweave.experiments.tables import ABSENT, about, markdown, number, test_sets

BASELINES = ("Vanilla", "VDBA", "Replace", "CDAlign")
OURS, OURS_GUARANTEED = "Ours w/o VDBA", "Ours"
GUARANTEED = "+vdba"  # behind the name of a system


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and the figures that say so."""

    holds: bool
    figures: str


class Measured:
    """Figures of one test set, by the paper's names of the methods.

    ours: the system that stands for the paper's method, which has a twin with VDBA. Of several systems under one name
    of the paper the last stands for it.
    """

    def __init__(self, results: Results, test_set: str, ours: str) -> None:
        self._results, self._test_set = results, test_set
        self._systems = {system["paper"]: system["name"] for system in results.plan["systems"] if system["paper"]}
        if self._systems.get(OURS) != ours:
            self._systems |= {OURS: ours, OURS_GUARANTEED: ours + GUARANTEED}

    def score(self, method: str, score: str, kind: str = "hard") -> float:
        return self._figure(f"score.{self._systems[method]}.{self._test_set}.{kind}", score)

    def system(self, method: str) -> str:
        return str(self._systems[method])

    def own(self, system: str, score: str) -> float:
        """Of a system that the paper does not have."""
        return self._figure(f"score.{system}.{self._test_set}.hard", score)

    def ece(self, method: str) -> float:
        return self._figure(f"calibrate.{self._systems[method]}.{self._test_set}", "inference_ece")

    def split(self, method: str) -> tuple[float, float]:
        """CSR of seen and unseen constraints."""
        found = self._results.records[f"overlap.{self._test_set}"]["result"]["systems"][self._systems[method]]
        return _present(found["csr_seen"]), _present(found["csr_unseen"])

    def _figure(self, step: str, key: str) -> float:
        return _present(self._results.records[step]["result"][key])


def _present(value: float | None) -> float:
    if value is None:
        raise KeyError("no such figure")
    return value


def _best_bleu(measured: Measured) -> Verdict:
    ours = measured.score(OURS_GUARANTEED, "bleu")
    others = {method: measured.score(method, "bleu") for method in BASELINES}
    best = max(others, key=lambda method: others[method])
    shown = f"{measured.system(OURS_GUARANTEED)} {number(ours)}; best baseline: {best} {number(others[best])}"
    return Verdict(ours > others[best], shown)


def _guaranteed(measured: Measured) -> Verdict:
    rate = measured.score(OURS_GUARANTEED, "csr_phrase_level")
    return Verdict(rate == 100, f"{number(rate)} %")


def _learned(measured: Measured) -> Verdict:
    rate = measured.score(OURS, "csr_phrase_level")
    return Verdict(rate >= 94, f"{number(rate)} %")


def _copied(measured: Measured) -> Verdict:
    rate = measured.own("copy", "csr_phrase_level")
    return Verdict(rate >= 98, f"{number(rate)} %")


def _switched(measured: Measured) -> Verdict:
    replace = measured.score("Replace", "csr_phrase_level", "switched")
    ours = measured.score(OURS, "csr_phrase_level", "switched")
    bleu, plain = (measured.score(method, "bleu", "switched") for method in ("Replace", "Vanilla"))
    shown = f"Replace {number(replace)} % (BLEU {number(bleu)}, vanilla has {number(plain)}), ours {number(ours)} %"
    return Verdict(replace < 50 and ours >= 90, shown)


def _attention(measured: Measured) -> Verdict:
    attention = measured.score("Attention only w/o VDBA", "csr_phrase_level")
    output = measured.score("Output only w/o VDBA", "csr_phrase_level")
    both = measured.score(OURS, "csr_phrase_level")
    plain = measured.score("Vanilla", "csr_phrase_level")
    holds = attention > output and attention - plain > (both - plain) / 2
    return Verdict(
        holds,
        f"attention {number(attention)} %, output {number(output)} %, both {number(both)} %, none {number(plain)} %",
    )


def _calibrated(measured: Measured) -> Verdict:
    pairs = [(OURS, "Vanilla"), (OURS_GUARANTEED, "VDBA")]
    found = [(measured.ece(ours), measured.ece(plain)) for ours, plain in pairs]
    shown = ", ".join(
        f"{search}: {number(ours, 2)} against {number(plain, 2)}"
        for search, (ours, plain) in zip(("beam", "VDBA"), found, strict=True)
    )
    return Verdict(all(ours < plain for ours, plain in found), shown)


def _extrapolates(measured: Measured) -> Verdict:
    seen, unseen = measured.split(OURS)
    return Verdict(unseen >= seen - 2, f"seen {number(seen)} %, unseen {number(unseen)} %")


CLAIMS: tuple[tuple[str, Callable[[Measured], Verdict]], ...] = (
    ("Ours has the best BLEU of all methods", _best_bleu),
    ("Ours with VDBA meets every constraint: CSR 100 %", _guaranteed),
    ("Ours with beam search meets at least 94 %", _learned),
    ("Code-switched, Replace meets less than half; ours does not collapse (at least 90 %)", _switched),
    ("Attention alone carries most of the CSR, more than the output layer alone", _attention),
    ("Ours has a lower ECE than vanilla, under both searches", _calibrated),
    ("Unseen constraints are met as well as seen ones (within 2 points)", _extrapolates),
)
# What the project wants of its own output layer; not a claim of the paper.
AIMS: tuple[tuple[str, Callable[[Measured], Verdict]], ...] = (
    ("`copy` with beam search meets at least 98 %", _copied),
)


def claims(results: Results) -> list[str]:
    """Of the paper's own method first, where what is not measured yet is open; then of our other output layers."""
    name, *others = _methods(results) or [""]
    header = ["claim of the paper", "here", "our figures", *(f"`{other}` instead" for other in others)]
    parts = []
    for test_set in test_sets(results, "hard"):
        first, *rest = [Measured(results, test_set["name"], method) for method in (name, *others)]
        rows = [
            [claim, *_judged(check, first, "reproduced"), *(_beside(check, each) for each in rest)]
            for claim, check in CLAIMS
        ]
        rows += [[f"Our own aim: {aim}", *_judged(check, first, "met"), *("" for _ in rest)] for aim, check in AIMS]
        parts += [about(results, test_set, "hard"), markdown(header, rows)]
    return parts


def _beside(check: Callable[[Measured], Verdict], measured: Measured) -> str:
    if check is _attention:
        return ""  # an ablation is one of the paper's method
    verdict, figures = _judged(check, measured, "reproduced")
    return f"{verdict}: {figures}" if figures else ABSENT


def _methods(results: Results) -> list[str]:
    """Systems that stand for the paper's method: its own, and ours that it does not have."""
    names = [system["name"] for system in results.plan["systems"]]
    own = [system["name"] for system in results.plan["systems"] if system["paper"] == OURS]
    return own + [
        system["name"]
        for system in results.plan["systems"]
        if not system["paper"] and system["name"] + GUARANTEED in names
    ]


def _judged(check: Callable[[Measured], Verdict], measured: Measured, word: str) -> list[str]:
    """The verdict, and the figures that say so."""
    try:
        verdict = check(measured)
    except KeyError:  # a step is not done, or the plan has no such system
        return ["open", ""]
    return [word if verdict.holds else f"**not {word}**", verdict.figures]
