"""What the policy says about one model at one tick, with everything that led to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ScalingReason(StrEnum):
    """Why the number is what it is; for machines, the message is for people."""

    DEMAND = "Demand"
    """The work that arrives, or is about to, needs this many."""
    LATENCY_PRESSURE = "LatencyPressure"
    """A latency misses its target although the work should fit."""
    WARM_REPLICAS = "WarmReplicas"
    """Demand and the requested headroom."""
    CONSOLIDATION = "Consolidation"
    """One replica less carries the work of the last minutes."""
    STEADY = "Steady"
    """What runs is what is needed."""
    AT_MINIMUM = "AtMinimum"
    """Fewer would suffice; `minReplicas` says no."""
    AT_MAXIMUM = "AtMaximum"
    """More is needed; `maxReplicas` says no."""
    VETOED = "Vetoed"
    """Another number is recommended; the vetoes say why it waits."""
    NO_METRICS = "NoMetrics"
    """Prometheus is silent: what runs stays."""
    FALLBACK = "Fallback"
    """Prometheus stays silent: raised to the fallback."""
    SCALED_TO_ZERO = "ScaledToZero"
    """No request came for so long that no replica is left."""
    REQUESTS_HELD = "RequestsHeld"
    """The router holds requests, and there is no replica."""
    SLOT_BUSY = "SlotBusy"
    """Another model has the GPU of the slot."""
    SLOT_GIVEN_UP = "SlotGivenUp"
    """Its time is over, and requests to another model of the slot wait."""
    CAPACITY_LIMITED = "CapacityLimited"
    """More is needed; there is no GPU to place it on."""


class Veto(StrEnum):
    """What keeps replicas from changing now."""

    PENDING = "Pending"
    """Replicas requested earlier do not serve yet."""
    SETTLING = "Settling"
    """The last change is too young."""
    SHORT_MEMORY = "ShortMemory"
    """The policy has not looked long enough."""
    LATENCY = "Latency"
    """A latency is too near its target, or unknown while requests run."""
    CONSOLIDATION = "Consolidation"
    """The highest demand of the last minutes would not fit one replica less."""
    NO_METRICS = "NoMetrics"
    """There is not an answer of Prometheus to decide on."""
    NO_CAPACITY = "NoCapacity"
    """Pods wait for a GPU already."""
    STABILIZATION = "Stabilization"
    """The behavior's stabilisation window holds another number."""
    RATE = "Rate"
    """The behavior's policies allow no more in this period."""
    DISABLED = "Disabled"
    """The behavior forbids this direction."""


@dataclass(frozen=True, slots=True)
class Vetoed:
    """One veto with the sentence that explains it."""

    veto: Veto
    message: str


@dataclass(frozen=True, slots=True)
class ObjectiveOutcome:
    """One objective as measured; `value_seconds` and `met` are `None` when nothing was measured."""

    name: str
    target_seconds: float
    value_seconds: float | None

    @property
    def met(self) -> bool | None:
        return None if self.value_seconds is None else self.value_seconds <= self.target_seconds


@dataclass(frozen=True, slots=True)
class Decision:
    """How many replicas, and why."""

    replicas: int
    current: int
    reason: ScalingReason
    message: str
    """One or two sentences without timestamps: it becomes status, and a changing status is a write.
    """
    capacity_limited: bool
    """Pods wait for a node so long that more of them would wait as well."""
    inputs: Mapping[str, float] = field(default_factory=dict)
    """The numbers that were looked at, by name with unit, rounded."""
    vetoes: tuple[Vetoed, ...] = ()
    objectives: tuple[ObjectiveOutcome, ...] = ()
    metrics_available: bool = True

    def is_short(self, slots_per_replica: int) -> bool:
        """Return whether who waits for these replicas waits for want of them."""
        ready = self.inputs.get("readyReplicas", 0)
        carried = ready * self.inputs.get("utilisationTarget", 1)
        waits = self.inputs.get("inFlightRequests", 0) > ready * slots_per_replica
        return waits or self.inputs.get("demandForecast", 0) > carried
