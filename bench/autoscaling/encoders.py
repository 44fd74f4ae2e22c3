"""Encoders in pods of their own: scaled by image work, a fixed number, or together with the model.

`encoders.py [--seeds N] [--processes N]` prints the table of docs/studies/disaggregated-encoders.md
and writes `results/encoders.json`. Two fleets in a row: an image waits for an encoder, then its
request for the language model. A server's own encoder, which helps after ten seconds, is left out.
"""

import argparse
import json
import math
import multiprocessing
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean

from runs import FIRST_SEED, MAX_REPLICAS, START, TARGETS, objectives
from traces import TRACES

from mm_lab.simulation.fleet import Fleet
from mm_lab.simulation.meters import Meters
from mm_lab.simulation.profile import H100_CLASS, ServiceProfile
from mm_lab.simulation.request import Request
from mm_lab.simulation.run import View
from mm_lab.simulation.slo_policy import SloPolicy
from mm_operator.autoscaling import ENCODERS, Objectives
from mm_operator.scaling.evaluation import ENCODER_SLOTS

RESULT = Path(__file__).parent / "results" / "encoders.json"
QUIET_SECONDS = 300
TRACE_NAMES = ("servegen", "servegen-high", "image-shift", "flash")

MODEL = replace(
    H100_CLASS,
    name="its language model alone",
    image_token_seconds=H100_CLASS.text_token_seconds,
)
ENCODER = ServiceProfile(
    name="its encoder on an L4",
    prompt_seconds=0.0,
    # 675e6 parameters on four patches a token, as in H100_CLASS; 40 % of 121 TFLOP/s (BF16 dense;
    # NVIDIA L4 data sheet).
    image_token_seconds=4 * 2 * 675e6 / (0.4 * 121e12),
    text_token_seconds=0.0,
    step_seconds=0.0,
    step_seconds_per_request=0.0,
    slots=1,
    queue_size=100_000,
    cold_start_seconds=40.0,  # 1.35 GB of weights at 0.4 GB/s, and what a server takes to start
)


class _Encoded(Meters):
    """Meters of encoders, which keep what they have encoded in the last second."""

    def __init__(self) -> None:
        super().__init__(TARGETS)
        self._came: dict[int, tuple[Request, Request]] = {}
        self.done: list[tuple[float, Request]] = []

    def take(self, request: Request) -> Request:
        """Return the part of a request that an encoder does."""
        part = request._replace(output_tokens=1)
        self._came[id(part)] = (part, request)
        self.arrived(part)
        return part

    def finished(self, request: Request, first: float, at: float) -> None:
        """Hand a request over to the language model."""
        super().finished(request, first, at)
        self.done.append((at, self._came.pop(id(request))[1]))


class _Answered(Meters):
    """Meters of the language model: a request began when it came, not when it was encoded."""

    def __init__(self) -> None:
        super().__init__(TARGETS)
        self.came: dict[int, tuple[Request, Request]] = {}

    def later(self, request: Request, at: float) -> Request:
        """Return a request as the language model gets it, whose image was encoded by then."""
        found = request._replace(at=at)
        self.came[id(found)] = (found, request)
        return found

    def _of(self, request: Request) -> Request:
        return self.came.get(id(request), (request, request))[1]

    def first_token(self, request: Request, at: float) -> None:
        """Note a first token of the request as it came."""
        super().first_token(self._of(request), at)

    def finished(self, request: Request, first: float, at: float) -> None:
        """Note the end of the request as it came."""
        super().finished(self._of(request), first, at)
        self.came.pop(id(request), None)


@dataclass(frozen=True)
class Result:
    """One run."""

    trace: str
    policy: str
    seed: int
    attainment: float
    first_token_p99_seconds: float
    model_hours: float
    encoder_hours: float
    model_range: tuple[int, int]
    encoder_range: tuple[int, int]


def _encoder_objectives(fixed: int | None) -> Objectives:
    least, most = (fixed, fixed) if fixed else (1, MAX_REPLICAS)
    return Objectives(
        min_replicas=least,
        max_replicas=most,
        cost=ENCODER.cost,
        slots_per_replica=ENCODER_SLOTS,
        tuning=ENCODERS,
    )


class _Both:
    """The two policies, and what is made of their numbers."""

    def __init__(self, fixed: int | None, *, together: bool) -> None:
        self.encoders = SloPolicy(
            _encoder_objectives(fixed), cold_start_seconds=ENCODER.cold_start_seconds
        )
        self.model = SloPolicy(
            objectives(0.7, 0, MODEL, MODEL.cost),
            cold_start_seconds=MODEL.cold_start_seconds,
            starved=lambda: self._at < self._short_until,
        )
        self._together = together
        self._at = self._short_until = 0.0

    def replicas(self, encoders: View, model: View) -> tuple[int, int]:
        """Return how many encoders and how many language models."""
        self._at, count = float(encoders.at), self.encoders.replicas(encoders)
        if self.encoders.last is not None and self.encoders.last.is_short(ENCODER_SLOTS):
            self._short_until = self._at + ENCODERS.effect_seconds
        wanted = count, self.model.replicas(model)
        return (max(wanted), max(wanted)) if self._together else wanted


POLICIES: dict[str, Callable[[], _Both]] = {
    "by their own work": partial(_Both, None, together=False),
    "as many as language models": partial(_Both, None, together=True),
    **{f"{count} at all times": partial(_Both, count, together=False) for count in (1, 2, 3, 4, 6)},
}


def run(job: tuple[str, str, int]) -> Result:
    """Return one run's numbers."""
    trace, policy, seed = job
    requests = TRACES[trace](seed)
    both = POLICIES[policy]()
    rng = random.Random(seed)  # noqa: S311 (repeatable, not secret)
    begins = START[trace]
    fixed = int(policy.split()[0]) if policy[0].isdigit() else 0
    encoded, answered = _Encoded(), _Answered()
    encoders = Fleet(ENCODER, fixed or begins, nodes=1000, seed=rng)
    model = Fleet(MODEL, begins, nodes=1000, seed=rng)
    seen: dict[str, list[int]] = {"encoders": [], "model": []}
    arrivals: dict[int, list[Request]] = {}
    for one in requests:
        arrivals.setdefault(math.floor(one.at) + 1, []).append(one)
    for at in range(1, math.ceil(requests[-1].at) + 1):
        came = arrivals.get(at, [])
        for one in came:
            answered.arrived(one)
        parts = [encoded.take(one) for one in came if one.image_tokens]
        encoders.second(float(at), parts, encoded)
        ready = [answered.later(one, moment) for moment, one in encoded.done]
        encoded.done.clear()
        texts = [one for one in came if not one.image_tokens]
        model.second(float(at), sorted([*texts, *ready]), answered)
        seen["encoders"].append(encoders.ready)
        seen["model"].append(model.ready)
        if at >= QUIET_SECONDS and at % both.model.tick_seconds == 0:
            wanted = both.replicas(
                View(at, encoders, encoded, silent=False, nan=False),
                View(at, model, answered, silent=False, nan=False),
            )
            for fleet, count in zip((encoders, model), wanted, strict=True):
                if count != fleet.wanted:
                    fleet.scale(min(count, MAX_REPLICAS), float(at))
    known = answered.good + len(answered.misses)
    tokens = sorted(answered.first_tokens)
    later = {name: counts[QUIET_SECONDS:] for name, counts in seen.items()}
    return Result(
        trace,
        policy,
        seed,
        answered.good / known if known else 1.0,
        tokens[math.ceil(0.99 * len(tokens)) - 1],
        model.paid_seconds / 3600,
        encoders.paid_seconds / 3600,
        (min(later["model"]), max(later["model"])),
        (min(later["encoders"]), max(later["encoders"])),
    )


def table(results: Sequence[Result]) -> str:
    """Return the study's table: means over the seeds."""
    lines = [
        "| trace | encoders are | kept | p99 first token | L4 hours | H100 hours | L4s | H100s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for trace in TRACE_NAMES:
        for policy in POLICIES:
            some = [one for one in results if (one.trace, one.policy) == (trace, policy)]
            if not some:
                continue
            ranges = [
                f"{min(low for low, _ in each)} to {max(high for _, high in each)}"
                for each in (
                    [one.encoder_range for one in some],
                    [one.model_range for one in some],
                )
            ]
            lines.append(
                f"| {trace} | {policy} | {fmean(one.attainment for one in some):.2%} | "
                f"{fmean(one.first_token_p99_seconds for one in some):.2f} s | "
                f"{fmean(one.encoder_hours for one in some):.1f} | "
                f"{fmean(one.model_hours for one in some):.1f} | {ranges[0]} | {ranges[1]} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    jobs = [
        (trace, policy, seed)
        for seed in range(FIRST_SEED, FIRST_SEED + options.seeds)
        for trace in TRACE_NAMES
        for policy in POLICIES
    ]
    results = []
    with multiprocessing.Pool(options.processes) as pool:
        for one in pool.imap_unordered(run, jobs):
            results.append(one)
            print(one, flush=True)
    RESULT.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
