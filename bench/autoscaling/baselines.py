"""Other autoscalers, written again from their sources, as policies of the simulator.

Each keeps its own default windows, ticks and limits; what its users choose, the target, is an
argument and is swept. `tests/mm_lab/simulation/test_baselines_are_faithful.py` holds them to
cases of their own test suites.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from mm_lab.simulation.profile import ServiceProfile
from mm_lab.simulation.run import View
from mm_lab.simulation.score import Targets
from mm_operator.autoscaling import LatencyMetric, WorkCost
from mm_operator.autoscaling.queue import work

LATENCY_WINDOW_SECONDS = 120


# --- Kubernetes HorizontalPodAutoscaler ---------------------------------------------------------

HPA_TOLERANCE = 0.1
"""`--horizontal-pod-autoscaler-tolerance`."""


def hpa_value(ready: int, value: float, target: float) -> int:
    """Return replicas for a metric of type `Value`: the ratio times the Ready pods.

    `GetExternalMetricReplicas` in Kubernetes' `pkg/controller/podautoscaler/replica_calculator.go`.
    """
    ratio = value / target
    return ready if abs(ratio - 1) <= HPA_TOLERANCE else math.ceil(ready * ratio)


def hpa_average(current: int, value: float, target: float) -> int:
    """Return replicas for a metric of type `AverageValue`: the sum over the target per pod.

    `GetExternalPerPodMetricReplicas`, same file.
    """
    ratio = value / (target * current) if current else math.inf
    return current if abs(ratio - 1) <= HPA_TOLERANCE else math.ceil(value / target)


@dataclass
class _HpaPace:
    """Default `behavior`: up at most double or four pods in 15 s, down the highest of 300 s."""

    recommendations: deque[tuple[int, int]] = field(default_factory=deque)

    def rate_limited(self, at: int, current: int, recommendation: int) -> int:
        self.recommendations.append((at, recommendation))
        while self.recommendations and self.recommendations[0][0] <= at - 300:
            self.recommendations.popleft()
        if recommendation > current:
            return min(recommendation, max(2 * current, current + 4))
        return min(current, max(value for _, value in self.recommendations))


class HpaLatency:
    """HPA on p95 time to first token as a `Value`."""

    tick_seconds = 15

    def __init__(self, target_seconds: float) -> None:
        self._target = target_seconds
        self._pace = _HpaPace()

    def replicas(self, view: View) -> int:
        """Return the rate_limited recommendation; an error of the metric holds."""
        current = view.fleet.wanted
        value = view.meters.latency(LatencyMetric.TTFT, 0.95, view.shown, LATENCY_WINDOW_SECONDS)
        if view.silent or view.nan:
            return current
        recommendation = hpa_value(max(1, view.fleet.ready), value or 0.0, self._target)
        return self._pace.rate_limited(view.at, current, recommendation)


class KedaInFlight:
    """KEDA's Prometheus scaler on requests in flight, `AverageValue`, through an HPA.

    With KEDA's default `ignoreNullValues: "true"`: no answer and NaN count as zero.
    """

    tick_seconds = 15

    def __init__(self, target: float) -> None:
        self._target = target
        self._pace = _HpaPace()

    def replicas(self, view: View) -> int:
        """Return the rate_limited recommendation."""
        missing = view.silent or view.nan
        value = 0.0 if missing else view.meters.in_flight(view.shown, 60)
        current = view.fleet.wanted
        return self._pace.rate_limited(view.at, current, hpa_average(current, value, self._target))


# --- Knative ------------------------------------------------------------------------------------

KPA_STABLE_SECONDS = 60
KPA_PANIC_SECONDS = 6
"""`panic-window-percentage` 10."""


@dataclass
class Kpa:
    """Knative's pod autoscaler: `Scale` in serving's `pkg/autoscaler/scaling/autoscaler.go`.

    It scrapes pods itself, so a silent Prometheus does not concern it.
    """

    target: float
    panic_threshold: float = 2.0
    max_up_rate: float = 1000.0
    max_down_rate: float = 2.0
    panic_since: int | None = None
    panic_pods: int = 0
    tick_seconds: int = 2

    def replicas(self, view: View) -> int:
        """Return the number for the stable and the panic window."""
        stable = view.meters.in_flight(view.at, KPA_STABLE_SECONDS)
        panic = view.meters.in_flight(view.at, KPA_PANIC_SECONDS)
        return self.scale(view.at, view.fleet.ready, stable, panic)

    def scale(self, at: int, ready_pods: int, stable: float, panic: float) -> int:
        """Return the wanted pods; a panic lasts until it is one stable window old."""
        ready = max(1, ready_pods)
        most, fewest = math.ceil(self.max_up_rate * ready), math.floor(ready / self.max_down_rate)
        wanted = min(max(math.ceil(stable / self.target), fewest), most)
        in_panic = min(max(math.ceil(panic / self.target), fewest), most)
        over = math.ceil(panic / self.target) / ready >= self.panic_threshold
        if over:
            self.panic_since = at
        elif self.panic_since is not None and self.panic_since + KPA_STABLE_SECONDS < at:
            self.panic_since, self.panic_pods = None, 0
        if self.panic_since is None:
            return wanted
        self.panic_pods = max(self.panic_pods, wanted, in_panic)
        return self.panic_pods


class KpaThroughPrometheus(Kpa):
    """The same algorithm with the eyes of those that query Prometheus: every 15 s, scraped numbers.

    Its panic window is a scrape interval, the shortest that has a sample.
    """

    def __init__(self, target: float) -> None:
        super().__init__(target, tick_seconds=15)

    def replicas(self, view: View) -> int:
        """Return the number for both windows; without metrics nothing moves."""
        if view.silent or view.nan:
            return view.fleet.wanted
        stable = view.meters.in_flight(view.shown, KPA_STABLE_SECONDS)
        panic = view.meters.in_flight(view.shown, self.tick_seconds)
        return self.scale(view.at, view.fleet.ready, stable, panic)


# --- AIBrix -------------------------------------------------------------------------------------


def apa(
    current: int, ratio: float, *, up_rate: float = 2, down_rate: float = 2, tolerance: float = 0.1
) -> int:
    """Return replicas for use over target: AIBrix' `computeTargetReplicas` in `apa.go`."""
    wanted = math.ceil(current * ratio)
    # As in the source, the comparison is of floats: 33/30 is not above 1.1.
    if ratio > 1 + tolerance:
        return min(wanted, math.ceil(up_rate * current))
    if ratio < 1 - tolerance:
        return max(wanted, math.floor(current / down_rate))
    return current


class AibrixApa:
    """AIBrix' application-specific autoscaler on requests in flight per pod."""

    tick_seconds = 10
    COOL_DOWN_SECONDS = 300

    def __init__(self, target: float) -> None:
        self._target = target
        self._recommendations: deque[tuple[int, int]] = deque()

    def replicas(self, view: View) -> int:
        """Return the recommendation; down only what all of the cool-down window agreed on."""
        current = view.fleet.wanted
        use = view.meters.in_flight(view.at, 60) / max(1, view.fleet.ready)
        recommendation = apa(current, use / self._target)
        self._recommendations.append((view.at, recommendation))
        while self._recommendations[0][0] <= view.at - self.COOL_DOWN_SECONDS:
            self._recommendations.popleft()
        highest = max(value for _, value in self._recommendations)
        return recommendation if recommendation >= current else min(current, highest)


# --- Dynamo -------------------------------------------------------------------------------------


def dynamo_load(
    workers: int,
    first_tokens: list[float],
    inter_tokens: list[float],
    *,
    targets: Targets,
    can_remove: bool,
) -> int:
    """Return workers for estimated latencies: one more when all miss, one less when safe.

    `_advance_load_agg` in Dynamo's `components/src/dynamo/planner/core/load_scaling.py`.
    """
    late = bool(first_tokens) and min(first_tokens) > targets.first_token_seconds
    slow = bool(inter_tokens) and min(inter_tokens) > targets.inter_token_seconds
    if late or slow:
        return workers + 1
    return workers - 1 if can_remove and workers > 1 else workers


class Dynamo:
    """Dynamo's planner in aggregated mode: load loop every 5 s over a floor every 180 s.

    Its regressions are given the true service times; the forecast is its `constant` predictor.
    `share` is the part of an engine's highest rate that its profile lets it take.
    """

    tick_seconds = 5
    FLOOR_SECONDS = 180
    SENSITIVITY = 0.8

    def __init__(self, share: float, profile: ServiceProfile, targets: Targets) -> None:
        self._share = share
        self._profile = profile
        self._targets = targets
        self._floor = 1

    def replicas(self, view: View) -> int:
        """Return the larger of load decision and floor; nothing while an action is in progress."""
        if view.at % self.FLOOR_SECONDS == 0 and not (view.silent or view.nan):
            self._floor = self._new_floor(view)
        wanted, ready = view.fleet.wanted, view.fleet.ready
        if ready != wanted:
            return wanted
        loads = view.fleet.loads
        prompt = self._prompt_seconds(view)
        now = [self._estimates(load, prompt, 1.0) for load in loads]
        grown = wanted / (wanted - 1) if wanted > 1 else 1.0
        after = [self._estimates(load, prompt, grown) for load in loads]
        safe = all(
            first - prompt < (self._targets.first_token_seconds - prompt) * self.SENSITIVITY
            and inter < self._targets.inter_token_seconds * self.SENSITIVITY
            for first, inter in after
        )
        load = dynamo_load(
            wanted,
            [first for first, _ in now],
            [inter for _, inter in now],
            targets=self._targets,
            can_remove=safe,
        )
        return max(load, self._floor)

    def _new_floor(self, view: View) -> int:
        arrivals = view.meters.arrivals(view.at, self.FLOOR_SECONDS)
        output = view.meters.mean_output_tokens(view.at, self.FLOOR_SECONDS) or 0.0
        return max(1, math.ceil(work(arrivals, output, self._profile.cost) / self._share))

    def _prompt_seconds(self, view: View) -> float:
        arrivals = view.meters.arrivals(view.at, self.FLOOR_SECONDS)
        if not arrivals.requests:
            return self._profile.prompt_seconds
        cost = self._profile.cost
        only_prompts = WorkCost(
            cost.request_seconds, cost.image_token_seconds, cost.text_token_seconds, 0.0
        )
        return work(arrivals, 0.0, only_prompts) / (arrivals.requests + arrivals.refused)

    def _estimates(self, load: tuple[int, int], prompt: float, grown: float) -> tuple[float, float]:
        waiting, running = load[0] * grown, min(load[1] * grown, self._profile.slots)
        step = self._profile.step_seconds + self._profile.step_seconds_per_request * running
        # Prompts that wait run between steps: one per step at most stretches each of them.
        return (waiting + 1) * prompt + step, step + (prompt if waiting >= 1 else 0.0)


# --- llm-d workload-variant-autoscaler ----------------------------------------------------------


def wva(ready: int, pending: int, demand: float, *, capacity: float, up: float, down: float) -> int:
    """Return replicas for demand and capacity in one unit: required over `up`, spare under `down`.

    `applyUniversalThreshold` and the optimizer of llm-d's workload-variant-autoscaler: what is
    pending counts as supply upwards, and nothing goes while something is pending.
    """
    required = demand / up - (ready + pending) * capacity
    if required > 0:
        return ready + pending + math.ceil(required / capacity)
    spare = ready * capacity - demand / down
    if pending or spare <= 0:
        return ready + pending
    return max(1, ready - math.floor(spare / capacity))


class Wva:
    """WVA's saturation analyzer, version 2: demand is requests in the KV cache and in the queue."""

    tick_seconds = 30
    KV_THRESHOLD = 0.8

    def __init__(self, up: float, down: float, profile: ServiceProfile) -> None:
        self._up, self._down = up, down
        self._capacity = self.KV_THRESHOLD * profile.slots

    def replicas(self, view: View) -> int:
        """Return the recommendation; without metrics nothing moves."""
        fleet = view.fleet
        if view.silent or view.nan:
            return fleet.wanted
        demand = view.meters.in_flight(view.shown, 60)
        return wva(
            fleet.ready,
            max(0, fleet.wanted - fleet.ready),
            demand,
            capacity=self._capacity,
            up=self._up,
            down=self._down,
        )
