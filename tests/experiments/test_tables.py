"""Tables and claims from records made up by hand, and the paper's figures against sums the paper prints itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from termweave.experiments import paper, tables
from termweave.experiments.claims import claims
from termweave.experiments.figures import draw_figures
from termweave.experiments.records import Results

NAMES = {
    "Vanilla": "plain",
    "VDBA": "plain+vdba",
    "Replace": "replace",
    "CDAlign": "cdalign",
    "Ours": "ours+vdba",
    "Ours w/o VDBA": "ours",
    "Attention only w/o VDBA": "attention",
    "Output only w/o VDBA": "output",
}
TABLES = ["main", "ablation", "switched", "speed", "calibration"]


def results(root: Path = Path(), **found: Any) -> Results:
    """Results whose records hold `found`, with dots of step names written as double underscores."""
    plan = {
        "name": "hand",
        "beam": 4,
        "samples": 1000,
        "speed": {"batches": [1, 32, 128]},
        "models": [],
        "systems": [
            {"name": own, "paper": theirs, "search": "beam", "tables": TABLES} for theirs, own in NAMES.items()
        ],
        "test_sets": [{"name": "news", "note": "", "kinds": ["hard", "switched"]}],
    }
    records = {step.replace("__", "."): {"result": value, "machine": "abacus"} for step, value in found.items()}
    return Results(root, "de-en", plan, dict.fromkeys(records, ""), records)


def scores(bleu: float, csr: float) -> dict[str, float]:
    return {"bleu": bleu, "csr_phrase_level": csr}


def everything() -> dict[str, Any]:
    """Figures under which all claims hold."""
    found: dict[str, Any] = {
        "score__plain__news__hard": scores(20, 10),
        "score__plain+vdba__news__hard": scores(24, 100),
        "score__replace__news__hard": scores(23, 90),
        "score__cdalign__news__hard": scores(24.5, 95),
        "score__ours__news__hard": scores(25, 96),
        "score__copy__news__hard": scores(25, 98.5),
        "score__ours+vdba__news__hard": scores(26, 100),
        "score__attention__news__hard": scores(24, 88),
        "score__output__news__hard": scores(22, 60),
        "score__plain__news__switched": scores(19, 5),
        "score__replace__news__switched": scores(20, 45),
        "score__ours__news__switched": scores(24, 95),
        "overlap__news": {"systems": {"ours": {"csr_seen": 97.0, "csr_unseen": 95.5}}},
    }
    for system, ece in {"plain": 8, "ours": 7, "plain+vdba": 10, "ours+vdba": 8}.items():
        found[f"calibrate__{system}__news"] = {"inference_ece": ece}
    return found


def verdicts(**changes: Any) -> list[str]:
    page = claims(results(**(everything() | changes)))[1]
    return [line.split(" | ")[1] for line in page.splitlines()[2:]]


def test_claims_that_hold():
    assert verdicts() == [*["reproduced"] * 7, "met"]


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"score__cdalign__news__hard": scores(26.1, 95)}, 0),
        ({"score__ours+vdba__news__hard": scores(26, 99.9)}, 1),
        ({"score__copy__news__hard": scores(25, 97.9)}, 7),
        ({"score__replace__news__switched": scores(20, 55)}, 3),
        ({"score__ours__news__switched": scores(20, 45)}, 3),
        ({"score__attention__news__hard": scores(24, 50)}, 4),
        ({"calibrate__ours+vdba__news": {"inference_ece": 10.5}}, 5),
        ({"overlap__news": {"systems": {"ours": {"csr_seen": 97.0, "csr_unseen": 90.0}}}}, 6),
    ],
)
def test_claims_that_do_not(change: dict[str, Any], claim: int):
    expected = [*["reproduced"] * 7, "met"]
    expected[claim] = f"**not {expected[claim]}**"
    assert verdicts(**change) == expected


def test_our_other_output_layers_are_judged_beside():
    found = everything() | {
        "score__copy+vdba__news__hard": scores(24, 100),
        "score__copy__news__switched": scores(9, 89),
    }
    known = results(**found)
    known.plan["systems"] += [{"name": name, "paper": "", "tables": ["main"]} for name in ("copy", "copy+vdba")]
    lines = claims(known)[1].splitlines()
    assert lines[0] == "| claim of the paper | here | our figures | `copy` instead |"
    cells = [line.strip("| ").split(" | ") for line in lines[2:]]
    assert [row[1] for row in cells] == [*["reproduced"] * 7, "met"]
    beside = [line.split(" | ")[3].removesuffix(" |") for line in lines[2:]]
    assert beside == [
        "**not reproduced**: copy+vdba 24.0; best baseline: CDAlign 24.5",
        "reproduced: 100.0 %",
        "reproduced: 98.5 %",
        "**not reproduced**: Replace 45.0 % (BLEU 20.0, vanilla has 19.0), ours 89.0 %",
        "",
        tables.ABSENT,
        tables.ABSENT,
        "",
    ]


def test_of_two_systems_under_one_name_the_last_is_judged():
    known = results(**everything(), **{"score__even+vdba__news__hard": scores(27, 100)})
    known.plan["systems"].append({"name": "even+vdba", "paper": "Ours", "tables": ["main"]})
    assert "| reproduced | even+vdba 27.0; best baseline: CDAlign 24.5 |" in claims(known)[1]


def test_an_experiment_without_the_papers_method_has_no_verdicts():
    known = results(**everything())
    known.plan["systems"] = [{"name": "mine", "paper": "", "tables": ["main"]}]
    assert {line.split(" | ")[1] for line in claims(known)[1].splitlines()[2:]} == {"open", "met"}


def test_claims_without_figures_stay_open():
    page = claims(results(**{"score__ours__news__hard": scores(25, 96)}))[1]
    rows = [line.split(" | ")[1] for line in page.splitlines()[2:]]
    assert rows == ["open", "open", "reproduced", "open", "open", "open", "open", "open"]


def test_the_main_table():
    def against(p_value: float) -> dict[str, Any]:
        return {"tests": [{"score": "BLEU", "p_value": p_value, "significant": p_value < 0.05}]}

    worse = {name: against(0.2 if name == "ours" else 0.01) for name in NAMES.values() if name != "ours+vdba"}
    found = everything() | {"compare__news__hard": {"best": "ours+vdba", "against_best": worse}}
    rows = {line.split(" | ")[0]: line for line in tables.main_results(results(**found))[-1].splitlines()}
    assert rows["| plain"] == "| plain | 20.0 | 10.0 | 0.010 | Vanilla | 31.7 | 19.2 | 24.5 | 13.8 |"
    assert rows["| ours"] == "| ours | 25.0 | 96.0 | 0.200 ★ | Ours w/o VDBA | 35.7 | 97.3 | 28.6 | 93.3 |"
    assert rows["| ours+vdba"] == "| ours+vdba | 26.0 | 100.0 | best | Ours | 35.9 | 100.0 | 28.8 | 100.0 |"


def test_speed_is_given_in_multiples_of_vanilla_at_batch_1():
    def rates(*values: float) -> dict[str, Any]:
        pairs = zip((1, 32, 128), values, strict=True)
        return {"batches": [{"batch": batch, "sentences_per_second": value} for batch, value in pairs]}

    found = {"speed__plain": rates(10, 100, 400), "speed__ours": rates(9, 90, 350)}
    lines = tables.speed(results(**found))[-1].splitlines()
    assert lines[0] == "| system | batch 1 | batch 32 | batch 128 | method | paper, batch 1 | paper, batch 128 |"
    rows = {line.split(" | ")[0]: line for line in lines}
    assert rows["| ours"].startswith(
        "| ours | 9.00 (0.9×) | 90.00 (9.0×) | 350.00 (35.0×) | Ours w/o VDBA | 0.9× | 39.2×"
    )
    assert rows["| cdalign"] == "| cdalign | – | – | – | CDAlign | 0.7× | – |"


@pytest.mark.parametrize(
    ("figures", "averages"),
    [
        (paper.MAIN_BLEU, (35.7, 37.7, 38.7, 38.4, 39.6, 39.6)),
        (paper.MAIN_CSR, (22.6, 99.6, 91.0, 92.5, 99.6, 94.4)),
        ({"overlap": paper.OVERLAP}, (35.6,)),
    ],
)
def test_the_paper_s_figures_have_the_averages_it_prints(
    figures: dict[str, paper.Figures], averages: tuple[float, ...]
):
    for row, average in zip(figures.values(), averages, strict=True):
        assert sum(row) / 4 == pytest.approx(average, abs=0.0501)


def test_figures_are_drawn_where_matplotlib_is(tmp_path: Path):
    pytest.importorskip("matplotlib")
    found = everything()
    bins = [{"tokens": 3, "probability": 0.4, "accuracy": 0.5}, {"tokens": 0, "probability": None, "accuracy": None}]
    found["calibrate__ours__news"] = {"inference_ece": 7, "bins": bins}
    for other in ("plain", "plain+vdba", "ours+vdba"):
        del found[f"calibrate__{other}__news"]
    weights = {"system": "ours", "output": ["a", "b"], "constraints": ["c"], "weights": [[0.1], [0.2]]}
    found |= {"speed__ours": {"batches": [{"batch": 1, "sentences_per_second": 3.0}]}, "attention": weights}
    drawn = draw_figures(results(tmp_path, **found))
    assert [file for _, file, _ in drawn] == [
        "figures/bleu-csr.news.svg",
        "figures/reliability.news.svg",
        "figures/speed.svg",
    ]
    assert all((tmp_path / file).read_text(encoding="utf-8").startswith("<?xml") for _, file, _ in drawn)
    assert (tmp_path / "cases" / "attention.svg").exists()
