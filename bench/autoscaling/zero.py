"""To zero and back: KEDA's polls and cooldown beside the operator, crowds with silence between.

`zero.py` prints the table of docs/studies/autoscaling.md and writes `results/zero.json`. Ten
minutes of 6 requests a second begin every 50 minutes, four times; requests wait in the router.
"""

import json
import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

import baselines
from runs import FIRST_SEED, MAX_REPLICAS, TARGETS, objectives

from mm_lab.simulation import Plan, Request, simulate
from mm_lab.simulation.profile import H100_CLASS
from mm_lab.simulation.run import Policy, View
from mm_lab.simulation.slo_policy import SloPolicy

RESULT = Path(__file__).parent / "results" / "zero.json"
SEEDS = range(FIRST_SEED, FIRST_SEED + 5)
EVERY, LENGTH, CROWDS, RATE = 3000.0, 600.0, 4, 6.0
PROFILE = H100_CLASS


class _Operator(SloPolicy):
    """The policy at its ticks, and at once when a router holds a request: it looks each second."""

    def replicas(self, view: View) -> int:
        wakes = not view.fleet.wanted and bool(view.fleet.held)
        return super().replicas(view) if wakes or view.at % 15 == 0 else view.fleet.wanted


def operator(idle_seconds: float, floor: int) -> Policy:
    goals = objectives(0.7, 0, PROFILE, PROFILE.cost, floor)
    return _Operator(
        replace(goals, idle_seconds=idle_seconds),
        cold_start_seconds=PROFILE.cold_start_seconds,
        tick_seconds=1,
    )


def keda(polling_seconds: int, floor: int) -> Policy:
    return baselines.keda_queue(16, min_replicas=floor, polling_seconds=polling_seconds)


POLICIES: dict[str, tuple[int, Callable[[], Policy]]] = {
    "KEDA, poll 30 s (its default), cooldown 300 s": (0, lambda: keda(30, 0)),
    "KEDA, poll 15 s (llm-d's), cooldown 300 s": (0, lambda: keda(15, 0)),
    "KEDA, at least 1": (1, lambda: keda(15, 1)),
    "the operator, scaleToZeroAfter 5m": (0, lambda: operator(300, 0)),
    "the operator, scaleToZeroAfter 15m (its default)": (0, lambda: operator(900, 0)),
    "the operator, at least 1": (1, lambda: operator(900, 1)),
}


@dataclass(frozen=True)
class Zero:
    """Means over the seeds.

    Attributes:
        wakes: of a run.
        wake_seconds: from the first request that waits until a replica is requested.
        worst_wake_seconds: the longest of all seeds.
    """

    kept_percent: float
    replica_hours: float
    wakes: float
    wake_seconds: float | None
    worst_wake_seconds: float | None


def crowds(seed: int) -> list[Request]:
    chance = random.Random(seed)  # noqa: S311 (repeatable, not secret)
    found = []
    for number in range(CROWDS):
        start = at = number * EVERY + 200 + chance.uniform(0, 60)
        while at < start + LENGTH:
            found.append(Request(at, 1200, 300, 1 + int(chance.expovariate(1 / 200))))
            at += chance.expovariate(RATE)
    return found


def run(floor: int, make: Callable[[], Policy]) -> Zero:
    """Run a policy on every seed."""
    scores, delays = [], []
    for seed in SEEDS:
        trace = crowds(seed)
        score = simulate(
            trace,
            make(),
            Plan(
                profile=PROFILE,
                targets=TARGETS,
                start_replicas=1,
                min_replicas=floor,
                max_replicas=MAX_REPLICAS,
                seed=seed,
            ),
        )
        scores.append(score)
        moments = [one.at for one in trace]
        slept = 0.0
        for change in score.changes:
            if not change.after:
                slept = change.at
            if not change.before:
                delays.append(change.at - moments[bisect_right(moments, slept - 1)])
    return Zero(
        kept_percent=round(100 * fmean(one.attainment for one in scores), 2),
        replica_hours=round(fmean(one.replica_hours for one in scores), 2),
        wakes=len(delays) / len(scores),
        wake_seconds=round(fmean(delays), 1) if delays else None,
        worst_wake_seconds=round(max(delays), 1) if delays else None,
    )


def main() -> None:
    """Run every policy, and write the result."""
    found = {name: run(*how) for name, how in POLICIES.items()}
    result = {"command": "bench/autoscaling/zero.py", "seeds": list(SEEDS)}
    shown = {name: asdict(one) for name, one in found.items()}
    RESULT.write_text(json.dumps({**result, **shown}, indent=1) + "\n", encoding="utf-8")
    print("| | kept % | replica hours | wakes | until a replica is requested, mean and worst s |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, one in found.items():
        waits = f"{one.wake_seconds} / {one.worst_wake_seconds}" if one.wakes else ""
        print(f"| {name} | {one.kept_percent} | {one.replica_hours} | {one.wakes:g} | {waits} |")


if __name__ == "__main__":
    main()
