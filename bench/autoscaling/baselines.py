"""Other autoscalers, written again from their sources, as policies of the simulator.

Each keeps its own default windows, ticks and limits; what its users choose, the target, is an
argument and is swept. `tests/mm_lab/simulation/test_baselines_are_faithful.py` holds them to
cases of their own test suites.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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


class ScalingPolicy(NamedTuple):
    """One of `behavior.scaleUp.policies` or `scaleDown.policies`."""

    kind: str
    """`Percent` or `Pods`."""
    value: int
    period_seconds: int


HPA_UP = (ScalingPolicy("Percent", 100, 15), ScalingPolicy("Pods", 4, 15))
HPA_DOWN = (ScalingPolicy("Percent", 100, 15),)
"""Kubernetes' defaults: up at most double or four pods in 15 s, down the highest of 300 s."""


@dataclass
class HpaBehavior:
    """`behavior` of an HPA: `convertDesiredReplicasWithBehaviorRate` in `horizontal.go`.

    Of several policies the one that changes most counts, which is the default `selectPolicy`.
    """

    up: tuple[ScalingPolicy, ...] = HPA_UP
    down: tuple[ScalingPolicy, ...] = HPA_DOWN
    down_seconds: int = 300
    """`scaleDown.stabilizationWindowSeconds`; upwards there is no window, as by default."""
    recommendations: deque[tuple[int, int]] = field(default_factory=deque)
    changes: deque[tuple[int, int]] = field(default_factory=deque)

    def limited(self, at: int, current: int, recommendation: int) -> int:
        """Return what is set instead of a recommendation."""
        self.recommendations.append((at, recommendation))
        while self.recommendations[0][0] <= at - self.down_seconds:
            self.recommendations.popleft()
        if recommendation > current:
            most = max(self._edge(at, current, policy, 1) for policy in self.up)
            wanted = min(recommendation, max(current, most))
        else:
            fewest = min(self._edge(at, current, policy, -1) for policy in self.down)
            highest = max(value for _, value in self.recommendations)
            wanted = min(current, max(highest, fewest))
        if wanted != current:
            self.changes.append((at, wanted - current))
        return wanted

    def _edge(self, at: int, current: int, policy: ScalingPolicy, sign: int) -> int:
        since = at - policy.period_seconds
        start = current - sum(change for moment, change in self.changes if moment > since)
        if policy.kind == "Pods":
            return start + sign * policy.value
        return math.ceil(start * (1 + policy.value / 100)) if sign > 0 else 0


class HpaLatency:
    """HPA on p95 time to first token as a `Value`."""

    tick_seconds = 15

    def __init__(self, target_seconds: float) -> None:
        self._target = target_seconds
        self._behavior = HpaBehavior()

    def replicas(self, view: View) -> int:
        """Return the limited recommendation; an error of the metric holds."""
        current = view.fleet.wanted
        value = view.meters.latency(LatencyMetric.TTFT, 0.95, view.shown, LATENCY_WINDOW_SECONDS)
        if view.silent or view.nan:
            return current
        recommendation = hpa_value(max(1, view.fleet.ready), value or 0.0, self._target)
        return self._behavior.limited(view.at, current, recommendation)


# --- KEDA ---------------------------------------------------------------------------------------


class Trigger(NamedTuple):
    """A trigger of type `prometheus` with `metricType: AverageValue`, the default."""

    query: Callable[[View], float]
    threshold: float


class Keda:
    """KEDA 2.21: a ScaledObject, and the HPA that it makes of it.

    From one replica on the HPA decides, every 15 s (`--horizontal-pod-autoscaler-sync-period`): the
    largest of what the triggers say. KEDA's metrics server queries Prometheus at each of them
    (`useCachedMetrics: false`). To and from zero KEDA decides itself, each `pollingInterval`: a
    trigger above its `activationThreshold` (0) makes one replica of none; `cooldownPeriod` after
    the last one, none is left of any number. https://keda.sh/docs/2.21/reference/scaledobject-spec/
    and .../concepts/scaling-deployments/.

    An empty answer and NaN count as zero (`ignoreNullValues: "true"`). Without an answer the query
    is an error, which holds: `pkg/scalers/prometheus_scaler.go`.
    """

    tick_seconds = 15

    def __init__(
        self,
        *triggers: Trigger,
        behavior: HpaBehavior | None = None,
        min_replicas: int = 1,
        polling_seconds: int = 30,
        cooldown_seconds: int = 300,
    ) -> None:
        self._triggers = triggers
        self._behavior = behavior or HpaBehavior()
        self._min_replicas = min_replicas
        self._polling_seconds = polling_seconds
        self._cooldown_seconds = cooldown_seconds
        self._active_at = -math.inf

    def replicas(self, view: View) -> int:
        """Return what KEDA or its HPA sets."""
        if view.silent:
            return view.fleet.wanted
        values = [0.0 if view.nan else trigger.query(view) for trigger in self._triggers]
        return self.scale(view.at, view.fleet.wanted, values)

    def scale(self, at: int, current: int, values: Sequence[float]) -> int:
        """Return the replicas for what the triggers' queries answered."""
        if not self._min_replicas and at % self._polling_seconds == 0:
            if any(value > 0 for value in values):
                self._active_at = at
                current = max(1, current)
            elif at - self._active_at > self._cooldown_seconds:
                return 0
        if not current:
            return 0  # an HPA does nothing while there are no replicas
        wanted = max(
            hpa_average(current, value, one.threshold)
            for value, one in zip(values, self._triggers, strict=True)
        )
        return self._behavior.limited(at, current, max(1, self._min_replicas, wanted))


def _in_flight_mean(view: View) -> float:
    return view.meters.in_flight(view.shown, 60)


def _in_flight(view: View) -> float:
    """Return `mm_router_outstanding_requests` and `mm_router_held_requests` at the last scrape."""
    held = sum(one.at <= view.shown for one in view.fleet.held)
    return view.meters.in_flight(view.shown, 1) + held


def _queue(view: View) -> float:
    """Return the requests that no slot has taken, which llm-d's picker holds."""
    return _in_flight(view) - view.meters.running(view.shown, 1)


def keda_in_flight(target: float) -> Keda:
    """Return KEDA on the mean of a minute of requests in flight."""
    return Keda(Trigger(_in_flight_mean, target))


def keda_queue(running: float, *, min_replicas: int = 1, polling_seconds: int = 15) -> Keda:
    """Return llm-d's `keda-epp` in its `queue` overlay, which is their default.

    Queue 1 and `running` requests a replica (16 there), `pollingInterval: 15`, up at most double.
    """
    return Keda(
        Trigger(_queue, 1.0),
        Trigger(_in_flight, running),
        behavior=HpaBehavior(up=(ScalingPolicy("Percent", 100, 15),)),
        min_replicas=min_replicas,
        polling_seconds=polling_seconds,
    )


def keda_tokens(backlog_seconds: float, profile: ServiceProfile, *, is_limited: bool) -> Keda:
    """Return llm-d's `keda-epp-token-aware`: seconds of prompts not read, and 0.8 of KV caches.

    Tokens of images count as those of text, as there. `is_limited`: by its own `behavior`, one pod
    more in 3 min and one less in 5 min, instead of Kubernetes' defaults.
    """
    behavior = HpaBehavior(
        up=(ScalingPolicy("Pods", 1, 180),), down=(ScalingPolicy("Pods", 1, 300),)
    )
    return Keda(
        Trigger(
            lambda view: view.meters.prompt_tokens(view.shown) * profile.text_token_seconds,
            backlog_seconds,
        ),
        # Slots are what this profile's KV cache holds.
        Trigger(lambda view: view.meters.running(view.shown, 1) / profile.slots, 0.8),
        behavior=behavior if is_limited else None,
        polling_seconds=15,
    )


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
