"""What the first run was to show, and whether it does: for each run, and for the newest figures of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from first_run_records import (
    ORDER,
    TEST_SETS,
    VARIANTS,
    Record,
    Scored,
    beside_vanilla,
    has,
    newest,
    origin,
    record,
    records,
    scored,
)
from render_decode import table

JUDGED = ("rwth508", "europarl")  # the test sets of the bars
VANILLA_RATE, BEST_RATE = 35, 93  # CSR of `hard`, %: below the first, above the second
GAIN, LOSS = 2, 0.5  # BLEU: with constraints at least so much more, without at most so much less
FIRST_SPEED, SECOND_SHARE = 450_000, 75  # real target tokens/s of stage 1; % of it in stage 2
MEMORY = 4e9  # bytes
ERROR_POINTS, PROCESSOR_SHARE = 2, 0.5  # of the aligner: AER above eflomal's, CPU time of eflomal's


@dataclass(frozen=True)
class Bar:
    """Something asked for, and what was measured."""

    what: str
    measured: str
    met: bool
    source: str = ""  # the run, or the part of the page, it comes from

    @property
    def verdict(self) -> str:
        return "yes" if self.met else "no"


def figure(value: float) -> str:
    return f"{value:,.0f}" if value > 1000 else f"{value:z.1f}"


def bars(run: Path) -> list[str]:
    """Those of one run."""
    rows: list[Bar] = []
    for name in JUDGED:
        found = [each for system in ORDER if (each := scored(run, system, name))]
        if len(found) > 1 and found[0].system == "vanilla":
            rows += quality_bars(name, max(found[1:], key=lambda each: each.rate), found[0])
    rows += guarantees(records(run, "*.*.*.json"))
    rows += speed_bars(run)
    missing = [system for system in ORDER if not has(run, f"train.{system}")]
    if missing:
        rows.append(Bar(f"all systems trained: {', '.join(missing)} missing", "", False))
    return table(["bar", "measured", "met"], [[row.what, row.measured, row.verdict] for row in rows])


def quality_bars(name: str, best: Scored, vanilla: Scored) -> list[Bar]:
    gain, plain = gains(best, vanilla)
    both = f"{link(best.run)}; vanilla: {link(vanilla.run)}" if best.run != vanilla.run else link(best.run)
    return [
        Bar(
            f"{name}, `hard`: CSR of vanilla below {VANILLA_RATE} %",
            figure(vanilla.rate),
            vanilla.rate < VANILLA_RATE,
            link(vanilla.run),
        ),
        Bar(
            f"{name}, `hard`: CSR of {best.system} above {BEST_RATE} %",
            figure(best.rate),
            best.rate > BEST_RATE,
            link(best.run),
        ),
        Bar(f"{name}, `hard`: BLEU of {best.system} at least {GAIN} above vanilla", figure(gain), gain >= GAIN, both),
        Bar(
            f"{name}, no constraints: BLEU of {best.system} within {LOSS} of vanilla",
            figure(plain),
            plain >= -LOSS,
            both,
        ),
    ]


def gains(system: Scored, vanilla: Scored) -> tuple[float, float]:
    """BLEU above vanilla's, with the constraints of `hard` and without any."""
    return system.hard["bleu"] - vanilla.hard["bleu"], system.none["bleu"] - vanilla.none["bleu"]


def guarantees(scores: dict[str, Record]) -> Iterator[Bar]:
    """The search that guarantees constraints, beside plain beam search on the same model."""
    for name in TEST_SETS:
        for kind in ("all", "hard"):
            plain, sure = scores.get(f"copy.{name}.{kind}"), scores.get(f"copy+vdba.{name}.{kind}")
            if plain and sure:
                rate, change = sure["csr_phrase_level"], sure["bleu"] - plain["bleu"]
                yield Bar(f"{name}, `{kind}`, guaranteed: CSR of copy 100 %", figure(rate), rate == 100)
                what = f"{name}, `{kind}`, guaranteed: BLEU at most {LOSS} below plain"
                yield Bar(what, figure(change), change >= -LOSS)


def speed_bars(run: Path) -> list[Bar]:
    if not has(run, "train.stage1"):
        return []
    trained = [system for system in VARIANTS if has(run, f"train.{system}")]
    return [first_speed(run), *(second_speed(run, system) for system in trained)]


def first_speed(run: Path) -> Bar:
    measured = speed(run, "stage1")
    what = f"stage 1: at least {FIRST_SPEED:,} real target tokens/s"
    return Bar(what, figure(measured), measured >= FIRST_SPEED, link(origin(run, "train.stage1")))


def second_speed(run: Path, system: str) -> Bar:
    share = 100 * speed(run, system) / speed(run, "stage1")
    what = f"stage 2, {system}: at least {SECOND_SHARE} % of stage 1"
    return Bar(what, figure(share), share >= SECOND_SHARE, link(origin(run, f"train.{system}")))


def speed(run: Path, system: str) -> float:
    return float(records(run, f"train.{system}.json")[f"train.{system}"]["target_tokens_per_second"])


def link(run: str) -> str:
    return f"[{run}](#run-{run})"


# The newest figures of all runs


def summary(folder: Path, alignment: list[Record]) -> list[str]:
    """At the top of the page: every bar with the newest figure there is. What was not measured is not met."""
    rows = [memory_bar(folder), *alignment_bars(alignment)]
    for name in JUDGED:
        rows += newest_quality(folder, name)
    rows += newest_speeds(folder)
    rows += interruption_bars(record(folder, "interruptions"))
    missed = "; ".join(row.what for row in rows if not row.met)
    return [
        f"{sum(row.met for row in rows)} of {len(rows)} bars are met." + (f" Not met: {missed}." if missed else ""),
        "",
        *table(
            ["bar", "measured", "measured in", "met"],
            [[row.what, row.measured, row.source, row.verdict] for row in rows],
        ),
        "The newest run that has a system counts; a record taken over from an earlier run is that run's. The bars are",
        "those of rwth508 and europarl, and of the variant that meets most of `hard` there. All variants on all sets,",
        "in the newest run that has vanilla beside them; BLEU is what they have above it. **Bold**: would miss a bar.",
        "",
        *variants(folder),
    ]


def unmeasured(what: str) -> Bar:
    return Bar(what, "not measured", False)


def memory_bar(folder: Path) -> Bar:
    what = f"`termweave prepare`: memory below {MEMORY / 1e9:.0f} GB"
    prepared = record(folder, "prepare")
    if prepared is None:
        return unmeasured(what)
    pairs = sum(counts["read"] for counts in prepared["steps"]["clean"]["counts"].values())
    step, peak = max(
        ((name, cost["peak_memory"]) for name, cost in prepared["steps"].items()), key=lambda pair: pair[1]
    )
    measured = f"{peak / 1e9:.2f} GB at most ({step}), {pairs:,} pairs"
    return Bar(what, measured, peak < MEMORY, "[preparation](#preparation-of-900000-sentence-pairs)")


def alignment_bars(alignment: list[Record]) -> Iterator[Bar]:
    source = "[aligner](#the-aligner-beside-eflomal)"
    pairs = [(ours, theirs) for ours, theirs in aligners(alignment) if theirs]
    if not pairs:
        yield unmeasured("aligner beside eflomal")
    for ours, theirs in pairs:
        points, share = ours["error_rate"] - theirs["error_rate"], ours["cpu_seconds"] / theirs["cpu_seconds"]
        yield Bar(
            f"aligner, {ours['text']}: AER at most {ERROR_POINTS} points above eflomal's",
            f"{points:+.2f}",
            points <= ERROR_POINTS,
            source,
        )
        what = f"aligner, {ours['text']}: at most {PROCESSOR_SHARE} of eflomal's CPU time"
        yield Bar(what, f"{share:.2f}", share <= PROCESSOR_SHARE, source)


def aligners(alignment: list[Record]) -> list[tuple[Record, Record | None]]:
    """Ours on each text, and eflomal where it was run on the same one."""
    theirs = {row["text"]: row for row in alignment if row["system"] == "eflomal"}
    return [(row, theirs.get(row["text"])) for row in alignment if row["system"] != "eflomal"]


def newest_quality(folder: Path, name: str) -> list[Bar]:
    found = [pair for system in VARIANTS if (pair := beside_vanilla(folder, system, name))]
    if not found:
        return [unmeasured(f"{name}: a variant beside vanilla")]
    return quality_bars(name, *max(found, key=lambda pair: pair[0].rate))


def newest_speeds(folder: Path) -> Iterator[Bar]:
    run = newest(folder, "train.stage1")
    yield first_speed(run) if run else unmeasured("stage 1: speed")
    for system in VARIANTS:
        run = newest(folder, "train.stage1", f"train.{system}")
        yield second_speed(run, system) if run else unmeasured(f"stage 2, {system}: speed")


def interruption_bars(measured: Record | None) -> list[Bar]:
    killed_what = "killed in both stages and gone on with: the losses of a run left alone"
    processes_what = "two processes (torchrun, gloo), the same global batch: the losses of one"
    if measured is None:
        return [unmeasured(killed_what), unmeasured(processes_what)]
    source = "[interruptions](#training-that-is-killed-and-training-by-two-processes)"
    killed, processes = measured["killed"], measured["processes"]
    same = all(killed["same_weights"].values())
    difference, relative = killed["largest_difference"], processes["largest_relative_difference"]
    together = processes["processes"] == [1, 2] and relative <= processes["tolerance"]
    return [
        Bar(
            killed_what,
            f"largest difference {difference:g}, {'the same' if same else 'other'} weights",
            difference == 0 and same,
            source,
        ),
        Bar(
            f"{processes_what}, within {processes['tolerance']:g} of them",
            f"largest relative difference {relative:.1g}",
            together,
            source,
        ),
    ]


def variants(folder: Path) -> list[str]:
    rows = []
    for system in VARIANTS:
        for name in TEST_SETS:
            pair = beside_vanilla(folder, system, name)
            if pair is None:
                continue
            gain, plain = gains(*pair)
            # Two digits of BLEU: with one, what misses a bar by little looks as if it met it.
            cells = [
                (figure(pair[0].rate), pair[0].rate > BEST_RATE),
                (f"{gain:+z.2f}", gain >= GAIN),
                (f"{plain:+z.2f}", plain >= -LOSS),
            ]
            shown = [cell if met else f"**{cell}**" for cell, met in cells]
            rows.append([system, name, link(pair[0].run), *shown])
    return table(["system", "test set", "run", "CSR of `hard`, %", "BLEU of `hard`", "BLEU, no constraints"], rows)
