"""What the policy must keep for one model: bounds, latencies, rate limits, what a token costs."""

from dataclasses import dataclass
from enum import StrEnum

from mm_api.v1alpha1.behavior import ScalingRules

SETTLE_SECONDS = 150.0
"""Where the spec names no window: two and a half of the fast ones. The steady window is three
minutes old already: together as long as HPA's default of 300 s."""

_NO_LIMITS = ScalingRules()


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
    margin: float = 0.9
    """This share of something is nearly all of it: of the slots that are taken, where replicas are
    full, because one is free for a moment after each answer; of the utilisation that replicas which
    stay may reach, else a load at the edge of N turns back and forth; of the load that was too
    much; of a pressure, below which the last boost helped; of what costs say that replicas do at
    most, above which more or less is no news, because requests are not dealt evenly."""
    idle_share: float = 0.5
    """Below this share a number says that replicas have too little to do: of a latency's target, so
    that one may be removed; of `utilisation`, where no replica more would make a latency lower."""
    burst_factor: float = 3.0
    """How far the fast window may exceed the steady one. A crowd needs its replicas at once: adding
    them as the steady window fills would start the last of them two minutes late."""
    deviations: float = 3.0
    """So many times 1/sqrt(n) is taken off the work of the n requests of the last scrape interval:
    two standard deviations of a sum of n pieces of work that vary as much as their mean. A busy
    model's crowd is believed at once, three requests of a quiet one are not. So many usual
    deviations are taken off as well: a burst like those that come every few minutes is over before
    a replica serves. The larger of both counts."""
    surge_excess: float = 0.2
    """While more arrives than all Ready replicas can work off, a queue grows for an entire cold
    start: as many more come as the demand needs when so much more arrives, as a share of what can
    be worked off, fewer when less does. No more than a fifth, because a crowd is only partly seen
    at the first looks; in full at once it keeps 0.1 points more of a step and costs 0.2 h of every
    crowd that the replicas there could nearly carry (`docs/studies/autoscaling.md`)."""
    least_full_load: float = 0.25
    """A cost is at most four times too low: where less is finished, clients give up or the answers
    fail, and more replicas would not help so much."""
    high_ticks: int = 2
    """So many ticks in a row with a latency above its target: one slow scrape is no trend. Replicas
    are added at 100 %, because demand acts earlier; 0.8 costs 2 to 6 % more for 0.1 points, by the
    simulation in `docs/studies/autoscaling.md`."""
    boost: float = 0.25
    """Share of replicas that pressure adds at once: with a sharp knee and minutes of cold start
    one at a time comes too late."""
    effect_seconds: float = 120.0
    """After a boost, after a replica became Ready, and between two steps down (and at least a cold
    start there): a percentile of the last minute still holds the requests that waited for it."""
    learned_seconds: float = 3600.0
    """So long the load per replica at the last boost counts as too much; then it may be tried
    again."""
    small_step_patience: float = 3.0
    """A step down by no more than one replica in so many saves little in a minute, so it looks back
    so many times as long, and lets additions settle as long: a replica that goes for a few minutes
    costs a cold start when it comes back."""
    settle_cold_starts: float = 1.25
    """No step down within so many cold starts after replicas were added: the last of them must have
    served for a while, and giving away what takes long to come back needs a longer look back."""
    cold_start_seconds: float = 180.0
    """Assumed until one was measured: weights of tens of GB from a network disk."""


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
    idle_seconds: float = 900.0
    """With `min_replicas` 0: so long without a request, and no replica is left."""
    warm_replicas: int = 0
    """Headroom: replicas beyond what the demand needs."""
    fallback_replicas: int | None = None
    """What to raise to when Prometheus stays silent; never lowers. `None`: hold."""
    fallback_ticks: int = 4
    """After so many ticks without an answer; four are a minute at 15 s."""
    settle_seconds: float = SETTLE_SECONDS
    """No step down this soon after replicas were added, as of `behavior.scaleDown`; the highest
    demand of this long, of 60 to 150 s, must fit the replicas that stay."""
    scale_up: ScalingRules = _NO_LIMITS
    scale_down: ScalingRules = _NO_LIMITS
    tuning: Tuning = Tuning()

    @property
    def utilisation(self) -> float:
        """Return the share of full work that a replica should carry."""
        tuning = self.tuning
        return tuning.slot_utilisation if self.cost is None else tuning.utilisation

    @property
    def helpful_utilisation(self) -> float:
        """Return how busy replicas are at least when the load slows them."""
        return self.tuning.idle_share * self.utilisation


ENCODERS = Tuning(utilisation=0.5)
"""For vision encoders in pods of their own. One takes its images one batch after the other, and
large ones hold up all behind them: at 70 % of their work three times as many requests missed their
first token as at 50 % (`docs/studies/disaggregated-encoders.md`)."""
