"""What the policy must keep for one model: bounds, latencies, pace, what a token costs."""

from dataclasses import dataclass
from enum import StrEnum


class LatencyMetric(StrEnum):
    """Latencies that can be an objective; the words of the API."""

    TTFT = "TimeToFirstToken"
    ITL = "InterTokenLatency"
    REQUEST = "RequestLatency"
    QUEUE = "QueueTime"


@dataclass(frozen=True, slots=True)
class LatencyObjective:
    """A percentile of a latency that must stay at or below its target."""

    metric: LatencyMetric
    percentile: int
    target_seconds: float

    @property
    def name(self) -> str:
        """Return the key of `Traffic.latencies`, for example `TimeToFirstTokenP95`."""
        return f"{self.metric.value}P{self.percentile}"


@dataclass(frozen=True, slots=True)
class WorkCost:
    """Seconds of one full replica that each unit of a request takes.

    Measured by the pod's warm-up benchmark at full batch, so the sum over what arrives in a second
    is the number of replicas that would be busy without a pause.
    """

    request_seconds: float
    image_token_seconds: float
    text_token_seconds: float
    output_token_seconds: float


class PolicyType(StrEnum):
    """How a limit of `ScalingRules` counts; as in HorizontalPodAutoscaler v2."""

    PODS = "Pods"
    PERCENT = "Percent"


class SelectPolicy(StrEnum):
    """Which of several limits holds; as in HorizontalPodAutoscaler v2."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True)
class RatePolicy:
    """At most `value` pods, or percent of the pods at the period's start, in `period_seconds`."""

    type: PolicyType
    value: int
    period_seconds: float


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """Pace in one direction; the fields of HorizontalPodAutoscaler v2's `scaleUp`, `scaleDown`.

    No `policies` means no limit of pace beyond the policy's own.
    """

    stabilization_seconds: float = 0.0
    """Upwards the lowest, downwards the highest recommendation of this long counts."""
    select: SelectPolicy = SelectPolicy.MAX
    policies: tuple[RatePolicy, ...] = ()


@dataclass(frozen=True, slots=True)
class ScheduleFloor:
    """At least `replicas` for `duration_seconds` from each time that `cron` names.

    `cron` has five fields and is read in `time_zone`, an IANA name.
    """

    name: str
    cron: str
    duration_seconds: float
    replicas: int
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Tuning:
    """Constants of the policy; each says where it comes from.

    `docs/studies/autoscaling.md` shows what another utilisation does to cost and attainment.
    """

    utilisation: float = 0.7
    """Share of full work that a replica should carry: KPA's target as well. Beyond it the queue of
    a batching engine grows faster than its work."""
    slot_utilisation: float = 0.3
    """The same while demand is slots taken, because no cost was measured. Prompts queue long before
    the slots are full: in the simulation (`docs/studies/autoscaling.md`) replicas at 70 % of their
    work have a third of their slots taken."""
    burst_factor: float = 3.0
    """How far the fast window may exceed the steady one. A crowd needs its replicas at once: adding
    them as the steady window fills would start the last of them two minutes late."""
    newest_deviations: float = 3.0
    """So many times 1/sqrt(n) is taken off the work of the n requests of the last scrape interval:
    two standard deviations of a sum of n pieces of work that vary as much as their mean. A busy
    model's crowd is believed at once, three requests of a quiet one are not."""
    newest_jitter: float = 3.0
    """So many usual deviations are taken off the last scrape interval's work as well: a burst like
    those that come every few minutes is over before a replica serves. The larger of both counts."""
    fast_jitter: float = 1.0
    """The same off the fast window. It has four intervals, so half of the deviation: two of its
    own."""
    jitter_half_seconds: float = 360.0
    """Half of what is known of it is of so long: some twenty ticks, and a burst every few minutes
    is not forgotten before the next."""
    jitter_limit: float = 1.0
    """A deviation counts at most this much: a crowd must not make the next one usual."""
    surge: float = 1.0
    """While more arrives than all Ready replicas can work off, up to so many more for each that the
    demand needs: until they serve a queue grows for an entire cold start."""
    surge_excess: float = 0.2
    """All of them when so much more arrives, as a share of what can be worked off, fewer when less
    does: the queue is in proportion to it. No more than a fifth, because a crowd is only partly
    seen at the first looks; in full at once it keeps 0.1 points more of a step and costs 0.2 h of
    every crowd that the replicas there could nearly carry (`docs/studies/autoscaling.md`)."""
    queue_noise: float = 0.05
    """A queue grows when more than this share of what the replicas do comes beyond it."""
    full_slots: float = 0.9
    """Replicas are full when this share of their slots is taken and a queue stands: a slot is free
    for a moment after each answer."""
    least_full_load: float = 0.25
    """A cost is at most four times too low: where less is finished, clients give up or the answers
    fail, and more replicas would not help so much."""
    full_load_noise: float = 0.85
    """What replicas do at most is no news above this share of what their costs say: requests are
    not dealt evenly, so a pod may be idle while the queue stands before the others."""
    trend_seconds: float = 300.0
    """Furthest that a trend is followed ahead, however long a cold start takes."""
    trend_weight: float = 0.5
    """Share of the trend that is believed: half of the observed rises continue."""
    smoothing: float = 0.6
    """Weight of the newest latency pressure; llm-d's workload-variant-autoscaler uses the same."""
    pressure_limit: float = 2.0
    """Pressure counts at most this much. Clamped before it is smoothed, else one outlier would
    stay for minutes."""
    high_pressure: float = 1.0
    """Latency over target at which replicas are added. Demand acts earlier; a latency near its
    target is as specified. 0.8 costs 2 to 6 % more for 0.1 points, by the simulation in
    `docs/studies/autoscaling.md`."""
    high_ticks: int = 2
    """So many ticks in a row: one slow scrape is no trend."""
    low_pressure: float = 0.5
    """Latency over target below which a replica may be removed. Well below `high_pressure`:
    between the two nothing moves."""
    boost: float = 0.25
    """Share of replicas that pressure adds at once: with a sharp knee and minutes of cold start
    one at a time comes too late."""
    boost_effect: float = 0.9
    """The last boost helped when pressure fell below this share of what it was. When it did not,
    and the replicas are less busy than then, more would not help either."""
    boost_pause_seconds: float = 120.0
    """After a boost, and after a replica became Ready: a percentile of the last minute still holds
    the requests that waited for it, and the smoothed pressure those of the minute before."""
    learned_seconds: float = 3600.0
    """So long the load per replica at the last boost counts as too much; then it may be tried
    again."""
    learned_share: float = 0.9
    """Share of that load that replicas carry meanwhile."""
    helpful_share: float = 0.5
    """Below this share of `utilisation` a latency does not come from the load: no replica helps."""
    down_share: float = 0.5
    """Share of replicas that one step down may take, at least one. The memory already says how
    many are needed; half leaves a second look."""
    consolidation: float = 0.9
    """A replica goes only when the others then stay below this share of `utilisation`: more room
    than the noise of a minute's arrivals, else a load at the edge of N replicas turns back and
    forth."""
    demand_memory_seconds: float = 150.0
    """The highest demand of this long must fit the replicas that stay. The steady window is
    three minutes old already: together as long as HPA's default of 300 s."""
    demand_memory_cold_starts: float = 1.25
    """Or of so many cold starts, when that is longer: giving away what takes long to come back
    needs a longer look."""
    small_step: float = 1 / 3
    """A step down by no more than this share of the replicas saves little in a minute ..."""
    small_step_patience: float = 3.0
    """... so it looks back so many times as long, and lets additions settle as long: a replica that
    goes for a few minutes costs a cold start when it comes back."""
    settle_seconds: float = 150.0
    """No step down this soon after replicas were added."""
    settle_cold_starts: float = 1.25
    """Nor within so many cold starts: the last of them must have served for a while."""
    step_seconds: float = 120.0
    """Between two steps down, and at least a cold start: a percentile and the smoothed pressure
    must show what the first one did."""
    cold_start_seconds: float = 180.0
    """Assumed until one was measured: weights of tens of GB from a network disk."""
    capacity_patience_seconds: float = 60.0
    """A pod that has no node for this long means that there is no GPU: add no more."""
    no_traffic_ticks: int = 4
    """After so many ticks without an answer (a minute at 15 s) the fallback counts."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """Bounds, targets and costs of one model."""

    min_replicas: int
    max_replicas: int
    latencies: tuple[LatencyObjective, ...] = ()
    cost: WorkCost | None = None
    """`None`: not measured; then demand is the slots that requests in flight take."""
    slots_per_replica: int = 1
    """Requests that one replica runs at a time: the engine's batch size."""
    warm_replicas: int = 0
    """Headroom: replicas beyond what the demand needs."""
    fallback_replicas: int | None = None
    """What to raise to when Prometheus stays silent; never lowers. `None`: hold."""
    scale_up: ScalingRules = ScalingRules()
    scale_down: ScalingRules = ScalingRules()
    schedules: tuple[ScheduleFloor, ...] = ()
    tuning: Tuning = Tuning()

    @property
    def utilisation(self) -> float:
        """Return the share of full work that a replica should carry."""
        tuning = self.tuning
        return tuning.slot_utilisation if self.cost is None else tuning.utilisation

    @property
    def helpful_utilisation(self) -> float:
        """Return how busy replicas are at least when the load slows them."""
        return self.tuning.helpful_share * self.utilisation
