"""Writes tables and figures of `docs/studies/autoscaling.md` from `results/runs.jsonl`.

The page has one row per trace and fault, `results/tables.md` every setting of every policy.
"""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import runs
from plot import Line, frontier

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "studies" / "autoscaling.md"
IMAGES = PAGE.parent / "autoscaling"
TABLES = HERE / "results" / "tables.md"
START, END = "<!-- measured: start -->", "<!-- measured: end -->"

# Two-sided 95 % of Student's t by degrees of freedom: few seeds need it.
_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


@dataclass(frozen=True)
class Point:
    """One setting on one trace: means over the seeds, half widths of 95 % intervals."""

    policy: str
    target: str
    by_seed: dict[int, tuple[float, float]]
    """Replica hours and percent kept of each seed."""
    hours: float
    attainment: float
    attainment_half: float
    reversals: float
    changes: float
    bad_minutes: float
    p99: float
    lowest: int
    above: int = 0
    """Its floor; 0: none was set."""


def main() -> None:
    """Write everything."""
    rows = [
        json.loads(line)
        for line in (HERE / "results" / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    complete = _complete_seeds(rows)
    floored = points_of(rows, "frontier", complete)
    frontiers = {
        trace: [point for point in points if not point.above] for trace, points in floored.items()
    }
    faults = points_of(rows, "fault", complete)
    IMAGES.mkdir(exist_ok=True)
    seeds = f"Seeds: {len(complete)}. Means; ± is half of a 95 % interval."
    tables = ["# Every setting on every trace", "", f"Written by `report.py`. {seeds}", ""]
    text = [START, seeds, "", "### Traces", "", "% kept at replica hours.", ""]
    text += [*_by_place("trace", frontiers), "", f"Every setting: [tables]({_FROM_PAGE}).", ""]
    for trace, points in frontiers.items():
        _draw(trace, points)
        _draw(f"{trace}-floors", [one for one in floored[trace] if one.policy not in _EYES])
        text += [f"![{trace}](autoscaling/{trace}.svg)", ""]
        text += [f"`{trace}` with [floors](autoscaling/{trace}-floors.svg).", ""]
        tables += [
            f"## {trace}",
            "",
            *_table(points),
            "",
            "With floors: what no setting of any policy beats at its cost or less.",
            "",
            *best(floored[trace]),
            "",
        ]
    compared = (
        "Seed by seed against ours, interpolated, at the same cost: points of what is kept, mean "
        "difference ± half of its 95 % interval. Less and more count beyond the interval. "
        "Settings outside of our costs in some seed are left out."
    )
    text += [
        "### Verdict",
        "",
        compared,
        "",
        *verdicts(frontiers),
        "",
        "### Verdict with floors",
        "",
        "Each policy may have a floor. A constant is a floor that equals the maximum.",
        "",
        *verdicts(floored),
        "",
        "### One setting on every trace",
        "",
        "Sums over the traces; reversals are turns of direction within 15 minutes.",
        "",
        *_everywhere(frontiers),
        "",
        "### Faults, on `diurnal`",
        "",
        "% kept at replica hours.",
        "",
        *_by_place("fault", faults),
        "",
        END,
    ]
    tables += ["## Faults, on diurnal", "", *_fault_table(faults)]
    TABLES.write_text("\n".join(tables) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    head, tail = page.split(START)[0], page.split(END)[1]
    PAGE.write_text(head + "\n".join(text) + tail, encoding="utf-8")
    print(f"{PAGE}: {len(rows)} runs, {len(complete)} complete seeds")


def _draw(name: str, points: list[Point]) -> None:
    lines = [Line(policy, _curve(points, policy)) for policy in _policies(points)]
    (IMAGES / f"{name}.svg").write_text(frontier(name, lines), encoding="utf-8")


def best(points: list[Point]) -> list[str]:
    """Return a table of the settings that cost more than all that keep as much."""
    lines = ["| policy | setting | replica hours | kept % | reversals |"]
    lines.append("| --- | --- | ---: | ---: | ---: |")
    most = -1.0
    for point in sorted(points, key=lambda one: (one.hours, -one.attainment)):
        if point.attainment <= most or point.policy in _EYES:
            continue
        most = point.attainment
        name = f"**{point.policy}**" if point.policy == runs.OURS else point.policy
        setting = f"{point.target}{_ties(point, points)}"
        lines.append(
            f"| {name} | {setting} | {point.hours:.2f} | {point.attainment:.2f} ± "
            f"{point.attainment_half:.2f} | {point.reversals:.1f} |"
        )
    return lines


def _ties(point: Point, points: list[Point]) -> str:
    """Return which others did the same in every seed: a row must not stand for them silently."""
    same = [
        one.target if one.policy == point.policy else f"{one.policy} {one.target}"
        for one in points
        if one is not point and one.policy not in _EYES and one.by_seed == point.by_seed
    ]
    if not same:
        return ""
    named, more = same[:_NAMED_TIES], len(same) - _NAMED_TIES
    return f" (also {'; '.join(named)}{f' and {more} more' if more > 0 else ''})"


_NAMED_TIES = 2


def _complete_seeds(rows: list[dict[str, object]]) -> set[object]:
    counts: dict[object, int] = defaultdict(int)
    for row in rows:
        counts[row["seed"]] += 1
    most = max(counts.values())
    return {seed for seed, count in counts.items() if count == most}


def points_of(
    rows: list[dict[str, object]], kind: str, seeds: set[object]
) -> dict[str, list[Point]]:
    """Return the points of each trace or fault, of entire seeds only."""
    grouped: dict[tuple[str, str, str], list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        if row["kind"] == kind and row["seed"] in seeds:
            grouped[str(row["where"]), str(row["policy"]), str(row["target"])].append(row)
    found: dict[str, list[Point]] = defaultdict(list)
    for (where, policy, target), same in grouped.items():
        found[where].append(_point(policy, target, same))
    return found


def _point(policy: str, target: str, same: list[dict[str, object]]) -> Point:
    def mean(name: str) -> float:
        return statistics.fmean(float(str(row[name])) for row in same)

    by_seed = {
        int(str(row["seed"])): (
            float(str(row["replica_hours"])),
            100 * float(str(row["attainment"])),
        )
        for row in same
    }
    attainments = [kept for _, kept in by_seed.values()]
    return Point(
        policy=policy,
        target=target,
        by_seed=by_seed,
        hours=mean("replica_hours"),
        attainment=statistics.fmean(attainments),
        attainment_half=_half(attainments),
        reversals=mean("reversals"),
        changes=mean("changes"),
        bad_minutes=mean("bad_minutes"),
        p99=mean("first_token_p99_seconds"),
        lowest=min(int(str(row["lowest_ready"])) for row in same),
        above=int(str(same[0].get("above", 0))),
    )


def _half(values: list[float]) -> float:
    """Return half of the 95 % interval of a mean."""
    if len(values) < 2:  # noqa: PLR2004 (one value has no spread)
        return 0.0
    return _T.get(len(values) - 1, 2.0) * statistics.stdev(values) / math.sqrt(len(values))


def _policies(points: list[Point]) -> list[str]:
    return list(dict.fromkeys(point.policy for point in points))


def _curve(points: list[Point], policy: str) -> list[tuple[float, float]]:
    found = [(point.hours, point.attainment) for point in points if point.policy == policy]
    if any(point.above for point in points if point.policy == policy):
        return envelope(found)
    return sorted(found)


def envelope(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that keep more than every cheaper one, cheapest first."""
    found: list[tuple[float, float]] = []
    for hours, kept in sorted(points, key=lambda one: (one[0], -one[1])):
        if not found or kept > found[-1][1]:
            found.append((hours, kept))
    return found


def _table(points: list[Point]) -> list[str]:
    head = (
        "| policy | target | replica hours | kept % | p99 TTFT s | changes | reversals | bad min |"
    )
    lines = [head, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for point in sorted(points, key=lambda one: one.hours):
        name = f"**{point.policy}**" if point.policy == runs.OURS else point.policy
        lines.append(
            f"| {name} | {point.target} | {point.hours:.2f} | {point.attainment:.2f} ± "
            f"{point.attainment_half:.2f} | {point.p99:.2f} | {point.changes:.1f} | "
            f"{point.reversals:.1f} | {point.bad_minutes:.1f} |"
        )
    return lines


def verdicts(frontiers: dict[str, list[Point]]) -> list[str]:
    """Compare every setting of others with ours at its cost, seed by seed: the same requests."""
    lines = []
    for trace, points in frontiers.items():
        others = [one for one in points if one.policy not in _OURS]
        found = [(one, *gap) for one in others if (gap := _gap(points, one)) is not None]
        better = sorted(
            (one for one in found if one[1] > one[2]), key=lambda one: one[1], reverse=True
        )
        worse = sum(mean < -half for _, mean, half in found)
        lines.append(
            f"- `{trace}`: of {len(found)} settings of others at a cost of ours, {worse} keep less "
            f"and {len(better)} keep more{': ' if better else ''}"
            + ", ".join(
                f"{one.policy} {one.target} (+{mean:.2f} ± {half:.2f} at {one.hours:.2f} h)"
                for one, mean, half in better
            )
            + "."
        )
    return lines


_OURS = {runs.OURS, runs.BLIND, runs.OFTEN, runs.QUICK}
_EYES = {runs.BLIND, runs.OFTEN, runs.QUICK, runs.SLOW_KPA}
"""What a policy would be with other eyes: reported beside it, and no choice that a user has."""


def _gap(points: list[Point], other: Point) -> tuple[float, float] | None:
    """Return how many points another keeps more at its cost, and half of the 95 % interval.

    `None` where it costs less or more than all of ours do.
    """
    gaps = []
    for seed, (hours, kept) in other.by_seed.items():
        mine = [one.by_seed[seed] for one in points if one.policy == runs.OURS]
        # To the dearest of them, though it may keep no more than a cheaper one.
        ours = _at([*envelope(mine), max(mine)], hours) if mine else None
        if ours is not None:
            gaps.append(kept - ours)
    if len(gaps) < len(other.by_seed):
        return None
    return statistics.fmean(gaps), _half(gaps)


def _everywhere(frontiers: dict[str, list[Point]]) -> list[str]:
    """Return a table of settings over all traces: no one tunes a target again for each hour."""
    grouped: dict[tuple[str, str], dict[str, Point]] = defaultdict(dict)
    for trace, points in frontiers.items():
        for point in points:
            grouped[point.policy, point.target][trace] = point
    on_all_frontiers = {name: by for name, by in grouped.items() if len(by) == len(frontiers)}
    lines = [
        "| policy | target | replica hours | missed, mean % | missed, worst % | on | reversals |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: |",
    ]
    for (policy, target), by in sorted(
        on_all_frontiers.items(), key=lambda one: sum(point.hours for point in one[1].values())
    ):
        worst = min(by, key=lambda trace: by[trace].attainment)
        name = f"**{policy}**" if policy == runs.OURS else policy
        lines.append(
            f"| {name} | {target} | {sum(point.hours for point in by.values()):.1f} | "
            f"{100 - statistics.fmean(point.attainment for point in by.values()):.2f} | "
            f"{100 - by[worst].attainment:.2f} | {worst} | "
            f"{sum(point.reversals for point in by.values()):.1f} |"
        )
    return lines


def _by_place(title: str, places: dict[str, list[Point]]) -> list[str]:
    """Return a row per trace or fault, with one usual setting of each policy."""
    lines = [
        f"| {title} | " + " | ".join(f"{policy}, {target}" for policy, target in _USUAL) + " |",
        "| --- |" + " ---: |" * len(_USUAL),
    ]
    for place, points in places.items():
        by = {(one.policy, one.target): one for one in points}
        cells = [by.get(name) for name in _USUAL]
        shown = (f"{one.attainment:.2f} at {one.hours:.1f}" if one else "" for one in cells)
        lines.append(f"| {place} | {' | '.join(shown)} |")
    return lines


_USUAL = (
    ("HPA/KEDA in flight", "8"),
    ("Knative KPA", "8"),
    ("Dynamo load + floor", "60%"),
    (runs.KEDA_QUEUE, "16"),
    (runs.KEDA_TOKENS, "1.5 s"),
    (runs.OURS, "70%"),
)
_FROM_PAGE = "../../bench/autoscaling/results/tables.md"


def _at(curve: list[tuple[float, float]], hours: float) -> float | None:
    """Return what a frontier keeps at a cost, between its points; `None` outside of them."""
    if not curve or not curve[0][0] <= hours <= curve[-1][0]:
        return None
    best = 0.0
    for (low, kept), (high, more) in pairwise(curve):
        if low <= hours <= high and low < high:
            best = kept + (more - kept) * (hours - low) / (high - low)
    return max(best, *(kept for cost, kept in curve if cost <= hours))


def _fault_table(faults: dict[str, list[Point]]) -> list[str]:
    lines = [
        "| fault | policy | target | replica hours | kept % | reversals | fewest Ready |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    lines.extend(
        f"| {fault} | {point.policy} | {point.target} | {point.hours:.2f} | "
        f"{point.attainment:.2f} ± {point.attainment_half:.2f} | {point.reversals:.1f} | "
        f"{point.lowest} |"
        for fault, points in faults.items()
        for point in points
    )
    return lines


if __name__ == "__main__":
    main()
