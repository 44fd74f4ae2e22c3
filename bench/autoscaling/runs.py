"""Which policies run, with which targets, on which traces, with which faults."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import baselines
from traces import MINUTE, TRACES

from mm_lab.simulation import Faults, Plan, Request, Score, ServiceProfile, simulate
from mm_lab.simulation.constant import Constant
from mm_lab.simulation.profile import H100_CLASS
from mm_lab.simulation.run import SCRAPE_AGE_SECONDS, Policy
from mm_lab.simulation.score import Targets
from mm_lab.simulation.slo_policy import SloPolicy
from mm_operator.autoscaling import LatencyMetric, LatencyObjective, Objectives, Tuning, WorkCost

TARGETS = Targets(first_token_seconds=2.0, inter_token_seconds=0.1)
"""Two seconds until something is read, then ten tokens a second, faster than people read."""

FIRST_SEED = 61
"""Seeds below were looked at while policies and traces were changed; those of the bench were not.
"""

SUDDEN = ("step", "flash")
"""Traces on which seconds count: a crowd that comes quicker than a replica starts."""

MIN_REPLICAS, MAX_REPLICAS = 1, 16

FRONTIER = (
    "servegen-high",
    "servegen",
    "servegen-half",
    "servegen-low",
    "diurnal",
    "step",
    "image-shift",
    "flash",
)
"""Traces on which every setting of every policy runs."""

START = {
    "servegen-high": 7,
    "servegen": 6,
    "servegen-half": 4,
    "servegen-low": 2,
    "diurnal": 2,
    "step": 2,
    "image-shift": 3,
    "flash": 3,
}
"""Replicas before the first tick: what the load then needs."""

OURS = "SLO capacity with vetoes"
BLIND = "the same, cost not measured"
OFTEN = "the same, looking every 5 s"
QUICK = "the same, with KPA's eyes"
HPA = "HPA on p95 TTFT"
KEDA = "HPA/KEDA in flight"
KPA = "Knative KPA"
SLOW_KPA = "KPA through Prometheus"
APA = "AIBrix APA"
DYNAMO = "Dynamo load + floor"
KEDA_QUEUE = "KEDA queue + running"
KEDA_TOKENS = "KEDA prompts + KV"
STATIC = "static"


@dataclass(frozen=True)
class Candidate:
    """A policy with one value of its own target; the middle of each list is its usual setting."""

    policy: str
    target: str
    make: Callable[[ServiceProfile, int], Policy]
    """From a profile and the fewest replicas."""
    traces: tuple[str, ...] = FRONTIER
    """On which it runs."""
    above: int = 0
    """Its floor, in replicas beyond what the load needs at the start; 0: no floor."""

    def floor(self, trace: str) -> int:
        """Return the fewest replicas on a trace: what its users set as minReplicas."""
        return START[trace] + self.above if self.above else MIN_REPLICAS


def objectives(
    utilisation: float,
    warm: int,
    profile: ServiceProfile,
    cost: WorkCost | None,
    floor: int = MIN_REPLICAS,
) -> Objectives:
    """Return our policy's objectives at one utilisation with so many warm replicas."""
    return Objectives(
        min_replicas=floor,
        max_replicas=MAX_REPLICAS,
        latencies=(
            LatencyObjective(LatencyMetric.TTFT, 95, TARGETS.first_token_seconds),
            LatencyObjective(LatencyMetric.ITL, 95, TARGETS.inter_token_seconds),
        ),
        cost=cost,
        slots_per_replica=profile.slots,
        warm_replicas=warm,
        tuning=Tuning(utilisation=utilisation, slot_utilisation=utilisation),
    )


def _ours(
    utilisation: float,
    warm: int = 0,
    measured: float | None = 1.0,
    *,
    tick_seconds: int = 15,
    age_seconds: int = SCRAPE_AGE_SECONDS,
) -> Callable[[ServiceProfile, int], Policy]:
    """Return our policy.

    Args:
        utilisation: share of full work that a replica carries.
        warm: replicas beyond the demand.
        measured: the known cost over the true one, `None` if there is none.
        tick_seconds: between two looks.
        age_seconds: of the numbers looked at.
    """

    def make(profile: ServiceProfile, floor: int) -> Policy:
        requested = objectives(utilisation, warm, profile, _scaled(profile.cost, measured), floor)
        return SloPolicy(
            requested,
            cold_start_seconds=profile.cold_start_seconds,
            tick_seconds=tick_seconds,
            age_seconds=age_seconds,
        )

    return make


def _scaled(true: WorkCost, measured: float | None) -> WorkCost | None:
    if measured is None:
        return None
    return WorkCost(
        true.request_seconds * measured,
        true.image_token_seconds * measured,
        true.text_token_seconds * measured,
        true.output_token_seconds * measured,
    )


def _swept() -> list[Candidate]:
    shares = ((0.9, 0), (0.8, 0), (0.7, 0), (0.6, 0))
    ours = (*shares, *((share, warm) for share in (0.9, 0.8) for warm in (1, 2, 3)))
    blind = ((0.3, 0), (0.4, 0))
    return [
        *(Candidate(OURS, _percent(share, warm), _ours(share, warm)) for share, warm in ours),
        *(
            Candidate(BLIND, _percent(share, warm), _ours(share, warm, None))
            for share, warm in blind
        ),
        *(Candidate(OFTEN, f"{one:.0%}", _ours(one, tick_seconds=5), SUDDEN) for one in (0.8, 0.7)),
        *(
            Candidate(QUICK, f"{one:.0%}", _ours(one, tick_seconds=2, age_seconds=0), SUDDEN)
            for one in (0.8, 0.7)
        ),
        *(Candidate(HPA, f"{one} s", _fixed(baselines.HpaLatency, one)) for one in (0.5, 0.8)),
        *(
            Candidate(KEDA, f"{one}", _fixed(baselines.keda_in_flight, one))
            for one in (5, 8, 12, 16)
        ),
        *(Candidate(KPA, f"{one}", _fixed(baselines.Kpa, one)) for one in (5, 8, 12)),
        *(
            Candidate(SLOW_KPA, f"{one}", _fixed(baselines.KpaThroughPrometheus, one), SUDDEN)
            for one in (5, 8, 12)
        ),
        *(Candidate(APA, f"{one}", _fixed(baselines.AibrixApa, one)) for one in (8, 20)),
        *(Candidate(DYNAMO, f"{one:.0%}", _dynamo(one)) for one in (0.5, 0.6, 0.7)),
        *(
            Candidate(KEDA_QUEUE, f"{one}", _fixed(baselines.keda_queue, one))
            for one in (8, 16, 24)
        ),
        Candidate(KEDA_TOKENS, "1.5 s, limited", _keda_tokens(1.5, is_limited=True)),
        *(Candidate(KEDA_TOKENS, f"{one} s", _keda_tokens(one)) for one in (0.5, 1.5)),
        *(Candidate(STATIC, f"{one}", _constant(one)) for one in (3, 4, 5, 6, 8)),
        Candidate(STATIC, "2", _constant(2), traces=("servegen-low",)),
        Candidate(STATIC, "10", _constant(10), traces=("servegen-high",)),
    ]


def _percent(share: float, warm: int) -> str:
    return f"{share:.0%}" + (f" + {warm} warm" if warm else "")


def _fixed(
    kind: Callable[[float], Policy], target: float
) -> Callable[[ServiceProfile, int], Policy]:
    return lambda _profile, _floor: kind(target)


def _constant(replicas: int) -> Callable[[ServiceProfile, int], Policy]:
    return lambda _profile, _floor: Constant(replicas)


def _dynamo(share: float) -> Callable[[ServiceProfile, int], Policy]:
    return lambda profile, _floor: baselines.Dynamo(share, profile, TARGETS)


def _keda_tokens(
    backlog_seconds: float, *, is_limited: bool = False
) -> Callable[[ServiceProfile, int], Policy]:
    return lambda profile, _floor: baselines.keda_tokens(
        backlog_seconds, profile, is_limited=is_limited
    )


ABOVE = (2, 3)
"""Floors that users who know of crowds may set, beyond what the load needs without them."""


def _floored(swept: list[Candidate]) -> list[Candidate]:
    """Return the same settings once more with each floor; headroom and floor are one or the other.

    A constant has none: it is the floor that equals the maximum.
    """
    return [
        replace(one, target=f"{one.target}, floor +{above}", above=above)
        for one in swept
        if one.policy in FLOORED and "warm" not in one.target
        for above in ABOVE
    ]


FLOORED = (OURS, HPA, KEDA, KPA, APA, DYNAMO, KEDA_QUEUE, KEDA_TOKENS)

SWEPT = [*(swept := _swept()), *_floored(swept)]

USUAL = {
    OURS: "70%",
    BLIND: "30%",
    HPA: "0.5 s",
    KEDA: "8",
    KPA: "8",
    APA: "8",
    DYNAMO: "60%",
    KEDA_QUEUE: "16",
    KEDA_TOKENS: "1.5 s",
    STATIC: "6",
}
"""The setting that the fault runs use: each keeps more than 99.9 % without a fault."""

FAULT_POLICIES = (OURS, KEDA, KPA, DYNAMO, KEDA_QUEUE, KEDA_TOKENS)


NOTHING = Faults()


@dataclass(frozen=True)
class Fault:
    """A trace with something that goes wrong."""

    name: str
    trace: str
    faults: Faults = NOTHING
    cold_start_factor: float = 1.0
    nodes: int = 1_000
    measured: float = 1.0


_OUTAGE = ((40 * MINUTE, 50 * MINUTE),)
"""Ten minutes around the peak."""

FAULTS = (
    Fault("no fault", "diurnal"),
    Fault("Prometheus silent for 10 min", "diurnal", Faults(silent=_OUTAGE)),
    Fault("NaN for 10 min", "diurnal", Faults(nan=_OUTAGE)),
    Fault("cold start x3", "diurnal", cold_start_factor=3.0),
    Fault("4 GPUs only", "diurnal", nodes=4),
    Fault(
        "a pod dies, three times",
        "diurnal",
        Faults(crashes=(15 * MINUTE, 40 * MINUTE, 65 * MINUTE)),
    ),
    Fault("cost measured 30 % too low", "diurnal", measured=0.7),
    Fault("cost measured 70 % too low", "diurnal", measured=0.3),
)


@lru_cache(maxsize=2)
def _trace(name: str, seed: int) -> list[Request]:
    return TRACES[name](seed)


def run_swept(trace: str, candidate: Candidate, seed: int) -> Score:
    """Return the score of one candidate on one trace."""
    return _run(Fault("", trace), candidate, seed, H100_CLASS)


def run_fault(fault: Fault, candidate: Candidate, seed: int) -> Score:
    """Return the score of one candidate under a fault."""
    seconds = H100_CLASS.cold_start_seconds * fault.cold_start_factor
    profile = replace(H100_CLASS, cold_start_seconds=seconds)
    if candidate.policy == OURS and fault.measured != 1.0:
        candidate = replace(candidate, make=_ours(0.7, 0, fault.measured))
    return _run(fault, candidate, seed, profile)


def _run(fault: Fault, candidate: Candidate, seed: int, profile: ServiceProfile) -> Score:
    floor = candidate.floor(fault.trace)
    start = int(candidate.target) if candidate.policy == STATIC else max(START[fault.trace], floor)
    plan = Plan(
        profile=profile,
        targets=TARGETS,
        start_replicas=start,
        min_replicas=floor,
        max_replicas=MAX_REPLICAS,
        nodes=fault.nodes,
        faults=fault.faults,
        seed=seed,
    )
    return simulate(_trace(fault.trace, seed), candidate.make(profile, floor), plan)
