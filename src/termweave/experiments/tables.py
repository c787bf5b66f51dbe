"""The tables of RESULTS.md, each from the records alone, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from termweave.evaluation.significance import THRESHOLD
from termweave.experiments import paper
from termweave.experiments.joint_steps import CASE_RULE
from termweave.experiments.records import Results

ABSENT = "–"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float | None, digits: int = 1) -> str:
    return ABSENT if value is None else f"{value:.{digits}f}"


def arrow(direction: str) -> str:
    """De→En"""
    return "→".join(part.capitalize() for part in direction.split("-"))


def both_ways(direction: str) -> tuple[str, str]:
    """The direction of the experiment, then the other one."""
    source, target = direction.split("-")
    return direction, f"{target}-{source}"


def test_sets(results: Results, kind: str) -> Iterator[dict[str, Any]]:
    return (test_set for test_set in results.plan["test_sets"] if kind in test_set["kinds"])


def about(results: Results, test_set: dict[str, Any], kind: str) -> str:
    made = results.get(f"set.{test_set['name']}.{kind}") or {}
    counts = f"{made.get('sentences', ABSENT)} sentences, {made.get('constraints', ABSENT)} constraints"
    note = f"; {test_set['note']}" if test_set["note"] else ""
    return f"**{test_set['name']}** (`{kind}`: {counts}{note})"


def planned(results: Results, table: str) -> bool:
    """Does any system stand in the table? Sections without rows are left out of the page."""
    return any(True for _ in results.systems(table))


def main_results(results: Results) -> list[str]:
    """Table 1 of the paper, and Table 2 in its rows without VDBA."""
    parts = [
        "Constraints that the vanilla model's greedy output does not contain (`hard`). CSR is the one at phrase level. "
        f"p: paired bootstrap of BLEU against the best, {results.plan['samples']} samples; ★: not significantly worse "
        f"(p ≥ {THRESHOLD}). Paper: Table {paper.MAIN_TABLE}; rows w/o VDBA: Table {paper.BEAM_TABLE}."
    ]
    for test_set in test_sets(results, "hard"):
        rows = _scored_rows(results, "main", test_set["name"], "hard", (paper.MAIN_BLEU, paper.MAIN_CSR))
        parts += [about(results, test_set, "hard"), markdown(_scored_header(results), rows)]
    return parts


def switched_results(results: Results) -> list[str]:
    if not planned(results, "switched"):
        return []
    parts = [
        "Half of the target constraints are replaced by their sources, in the constraints and in the reference. "
        f"Paper: Table {paper.SWITCHED_TABLE}."
    ]
    for test_set in test_sets(results, "switched"):
        figures = (paper.SWITCHED_BLEU, paper.SWITCHED_CSR)
        rows = _scored_rows(results, "switched", test_set["name"], "switched", figures)
        parts += [about(results, test_set, "switched"), markdown(_scored_header(results), rows)]
    return parts


def _scored_header(results: Results) -> list[str]:
    ways = [arrow(direction) for direction in both_ways(results.direction)]
    return [
        "system",
        "BLEU",
        "CSR %",
        "p",
        "method",
        *(f"{way} {score}" for way in ways for score in ("BLEU", "CSR %")),
    ]


def _scored_rows(
    results: Results,
    table: str,
    test_set: str,
    kind: str,
    figures: tuple[dict[str, paper.Figures], dict[str, paper.Figures]],
) -> list[list[str]]:
    rows = []
    for system in results.systems(table):
        scores = results.get(f"score.{system['name']}.{test_set}.{kind}") or {}
        row = [system["name"], number(scores.get("bleu")), number(scores.get("csr_phrase_level"))]
        row += [_significance(results, system["name"], test_set, kind), system["paper"] or ABSENT]
        for direction in both_ways(results.direction):
            row += [number(paper.in_direction(each.get(system["paper"]), direction)) for each in figures]
        rows.append(row)
    return rows


def _significance(results: Results, system: str, test_set: str, kind: str) -> str:
    found = results.get(f"compare.{test_set}.{kind}")
    if found is None:
        return ABSENT
    if found["best"] == system:
        return "best"
    test = next(test for test in found["against_best"][system]["tests"] if test["score"] == "BLEU")
    return f"{test['p_value']:.3f}" + ("" if test["significant"] else " ★")


def other_constraints(results: Results) -> list[str]:
    """What constraints cost and bring where they are not chosen to be hard."""
    parts = ["No constraints given, and `all`: also those that a vanilla model meets by itself. Not in the paper."]
    for test_set in results.plan["test_sets"]:
        if not {"none", "all"} & set(test_set["kinds"]):
            continue
        rows = []
        for system in results.systems("main"):
            row = [system["name"]]
            for kind in ("none", "all"):
                scores = results.get(f"score.{system['name']}.{test_set['name']}.{kind}")
                row += [number((scores or {}).get(key)) for key in ("bleu", "csr_phrase_level")]
                row.append(_significance(results, system["name"], test_set["name"], kind) if scores else ABSENT)
            rows.append(row)
        header = ["system", "none: BLEU", "met by chance %", "p", "all: BLEU", "CSR %", "p"]
        parts += [about(results, test_set, "all"), markdown(header, rows)]
    return parts


def ablation(results: Results) -> list[str]:
    if not planned(results, "ablation"):
        return []
    parts = [f"Paper: Table {paper.ABLATION_TABLE}, on its Zh→En validation set."]
    for test_set in test_sets(results, "hard"):
        rows = []
        for system in results.systems("ablation"):
            scores = results.get(f"score.{system['name']}.{test_set['name']}.hard") or {}
            own = [scores.get("bleu"), scores.get("csr_phrase_level")]
            theirs = paper.ABLATION.get(system["paper"], (None, None))
            rows.append([system["name"], *map(number, own), system["paper"] or ABSENT, *map(number, theirs)])
        header = ["system", "BLEU", "CSR %", "method", "Zh→En BLEU", "CSR %"]
        parts += [about(results, test_set, "hard"), markdown(header, rows)]
    return parts


def speed(results: Results) -> list[str]:
    """Sentences a second, and as multiples of the vanilla model's at batch 1, as in the paper."""
    if not planned(results, "speed"):
        return []
    batches = results.plan["speed"]["batches"]
    known = [batch for batch in batches if batch in paper.SPEED["Vanilla"]]
    rates: dict[str, dict[int, float]] = {}
    for system in results.systems("speed"):
        found = results.get(f"speed.{system['name']}") or {"batches": []}
        rates[system["name"]] = {row["batch"]: row["sentences_per_second"] for row in found["batches"]}
    vanilla = next((system["name"] for system in results.systems("speed") if system["paper"] == "Vanilla"), None)
    base = rates.get(vanilla or "", {}).get(1)
    rows = []
    for system in results.systems("speed"):
        own, theirs = rates[system["name"]], paper.SPEED.get(system["paper"], {})
        cells = [_rate(own.get(batch), base) for batch in batches]
        rows.append(
            [system["name"], *cells, system["paper"] or ABSENT, *(_times(theirs.get(batch)) for batch in known)]
        )
    header = ["system", *(f"batch {batch}" for batch in batches)]
    header += ["method", *(f"paper, batch {batch}" for batch in known)]
    machines = sorted({results.records[step]["machine"] for step in results.records if step.startswith("speed.")})
    note = (
        f"Sentences a second, and in brackets multiples of vanilla at batch 1; beam {results.plan['beam']}, `hard` "
        f"constraints of {results.plan['test_sets'][0]['name']}. Measured on: {', '.join(machines) or ABSENT}. Paper: "
        f"Table {paper.SPEED_TABLE}, one V100."
    )
    return [note, markdown(header, rows)]


def _rate(rate: float | None, base: float | None) -> str:
    return ABSENT if rate is None else number(rate, 2) + (f" ({_times(rate / base)})" if base else "")


def _times(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1f}×"


def calibration(results: Results) -> list[str]:
    if not planned(results, "calibration"):
        return []
    parts = [
        "Mean probability of all tokens and of those in constraints, and inference ECE (20 bins; a token is right if "
        f"the TER alignment says so). Paper: Table {paper.CALIBRATION_TABLE}, on its Zh→En validation set."
    ]
    for test_set in test_sets(results, "hard"):
        rows = []
        for system in results.systems("calibration"):
            found = results.get(f"calibrate.{system['name']}.{test_set['name']}") or {}
            theirs = paper.CALIBRATION.get(system["paper"], (None, None, None))
            row = [number(found.get("probability"), 2), number(found.get("constrained_probability"), 2)]
            row += [number(found.get("inference_ece"), 2), system["paper"] or ABSENT]
            rows.append([system["name"], *row, *(number(value, 2) for value in theirs)])
        header = ["system", "all", "constrained", "ECE %", "method", "Zh→En all", "constrained", "ECE %"]
        parts += [about(results, test_set, "hard"), markdown(header, rows)]
    return parts


def overlap(results: Results) -> list[str]:
    forth, back = both_ways(results.direction)
    theirs = [f"{arrow(way)} {number(paper.in_direction(paper.OVERLAP, way))} %" for way in (forth, back)]
    parts = [f"Paper: Table {paper.OVERLAP_TABLE}: seen in training, {', '.join(theirs)}; it does not split the CSR."]
    for test_set in test_sets(results, "hard"):
        found = results.get(f"overlap.{test_set['name']}")
        if found is None:
            continue
        shares = [found["seen_as_phrase_pair"], found["seen_as_text"]]
        parts.append(
            f"{about(results, test_set, 'hard')}: {number(shares[0])} % seen as a phrase pair, {number(shares[1])} % "
            f"in the text of some sentence pair, of {found['training_sentences']:,} sentence pairs."
        )
        rows = [
            [name, number(split["csr_seen"]), number(split["csr_unseen"])] for name, split in found["systems"].items()
        ]
        header = ["system", f"CSR %, {_any(found, 'seen')} seen", f"CSR %, {_any(found, 'unseen')} unseen"]
        parts.append(markdown(header, rows))
    return parts


def _any(found: dict[str, Any], kind: str) -> int:
    """How many constraints of a kind there are: the same for every system."""
    return next((int(split[kind]) for split in found["systems"].values()), 0)


def training(results: Results) -> list[str]:
    rows = []
    for model in results.plan["models"]:
        found = results.get(f"train.{model['name']}") or {}
        row = [model["name"], model["stage"], model["start"] or ABSENT]
        row += [f"{found[key]:,.0f}" if key in found else ABSENT for key in ("steps", "parameters")]
        row += [number(found.get("last_loss"), 3)]
        row += [f"{found['target_tokens_per_second']:,.0f}" if found else ABSENT]
        rows.append(row)
    header = ["model", "stage", "from", "steps", "parameters", "last loss", "target tokens/s"]
    return [markdown(header, rows)]


def cases(results: Results) -> list[str]:
    """Which sentences, and how many constraints each system met; their text stands in a file that is not published."""
    rule = f"Chosen by rule: {CASE_RULE}. Paper: Table {paper.CASE_TABLE}. The sentences: `cases/CASES.md`."
    found = results.get("cases")
    if found is None or not found["cases"]:
        return [rule]
    header = ["system", *(f"sentence {case['number']}" for case in found["cases"])]
    rows = [
        [system["name"], *(f"{case['met'][system['name']]} of {len(case['constraints'])}" for case in found["cases"])]
        for system in results.systems("main")
    ]
    return [rule, f"**{found['test_set']}**, constraints met:", markdown(header, rows)]


def case_texts(results: Results) -> list[str]:
    found = results.get("cases") or {"cases": []}
    parts = [f"Chosen by rule: {CASE_RULE}."]
    for case in found["cases"]:
        wanted = ", ".join(f"{source} → {target}" for source, target in case["constraints"])
        rows = [["source", case["source"]], ["reference", case["reference"]], *case["outputs"].items()]
        parts += [f"## Sentence {case['number']}", f"Constraints: {wanted}"]
        parts.append(markdown(["", ""], [[name, text.replace("|", "\\|")] for name, text in rows]))
    return parts


def provenance(results: Results) -> list[str]:
    records = list(results.records.values())
    if not records:
        return ["Nothing is measured yet."]
    data = dict(sorted({file: value for record in records for file, value in record["data"].items()}.items()))
    seeds = "; ".join(_distinct(records, "seeds"))
    parts = [
        f"{len(records)} of {len(results.keys)} steps are done. Seeds: {seeds}. Machines: "
        f"{'; '.join(sorted({record['machine'] for record in records}))}.",
        "\n".join(f"- versions: {entry}" for entry in _distinct(records, "versions")),
        "\n".join(f"- signatures: {entry}" for entry in _distinct(records, "signatures")),
        markdown(["data", "SHA-256"], [[f"`{file}`", f"`{value[:16]}…`"] for file, value in data.items()]),
    ]
    return [part for part in parts if part]


def _distinct(records: list[dict[str, Any]], field: str) -> list[str]:
    return sorted({", ".join(f"{key} {value}" for key, value in record[field].items()) for record in records})
