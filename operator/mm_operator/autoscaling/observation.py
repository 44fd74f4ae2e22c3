"""What one tick sees of one model: replicas from the API server, traffic from Prometheus.

Values only. Their reader guarantees: only Ready pods count in latencies, counter resets
are repaired, NaN and Inf are left out. What could not be measured is `None`, never zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RequestRate:
    """What came in, per second of one window, summed over the pods.

    Counted on arrival, not on completion: a full engine completes at its own rate whatever is
    sent to it. `text_tokens` are prompt tokens less image tokens.
    """

    requests: float
    image_tokens: float
    text_tokens: float
    refused: float = 0.0
    """Requests per second refused because the queue was full; their tokens were never counted."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What Prometheus answered, all of one tick."""

    fast: RequestRate
    """Over `FAST_WINDOW_SECONDS`: sees a burst."""
    steady: RequestRate
    """Over `STEADY_WINDOW_SECONDS`: what scaling follows."""
    mean_output_tokens: float | None
    """Generated tokens per finished request over `OUTPUT_WINDOW_SECONDS`; `None` when none ended.
    A length, so a full engine does not shrink it as it shrinks tokens per second."""
    in_flight: float
    """Requests running and waiting, summed over the pods, mean of `FAST_WINDOW_SECONDS`. The demand
    while the cost of a token is not measured."""
    latencies: Mapping[str, float] = field(default_factory=dict)
    """Seconds by `LatencyObjective.name`; one is missing when no request of its window ended."""
    newest: RequestRate | None = None
    """Between the last two scrapes: sees a crowd first, and noise as well. `None`: not known."""
    running: float | None = None
    """Those of them that hold a slot. `None`: not known."""
    completed: float | None = None
    """Requests a second whose answers ended well, between the last two scrapes. `None`: not
    known."""


FAST_WINDOW_SECONDS = 60.0
"""Four scrapes of 15 s: the shortest window whose rate survives one missed scrape."""

NEWEST_SECONDS = 15.0
"""One scrape interval: what lies between the last two samples."""

STEADY_WINDOW_SECONDS = 180.0
"""Three fast windows: a spike of one minute weighs a third."""

OUTPUT_WINDOW_SECONDS = 600.0
"""Answers take minutes when the engine is full; a shorter window would see the short ones first."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One model at one moment."""

    at: float
    """Unix seconds of the tick. The policy has no other clock."""
    replicas: int
    """`spec.replicas` of the workload as the API server has it: the last requested number."""
    ready: int
    """Pods that are Ready, so answer requests."""
    unschedulable: int = 0
    """Pods that the scheduler could not place: there is no GPU for them."""
    unschedulable_seconds: float = 0.0
    """Since when the oldest of them waits for a node."""
    cold_start_seconds: float | None = None
    """Measured from scheduled to Ready, the slow half of the last starts; `None`: none yet."""
    traffic: Traffic | None = None
    """`None`: Prometheus gave no answer, or none that can be used."""
    traffic_problem: str = ""
    """Why `traffic` is `None`, one sentence for people."""
    held: int = 0
    """Requests that wait in routers for a replica."""
    hold_problem: str = "No router holds requests."
    """Why requests would be lost without a replica, one sentence; empty: a router holds them."""

    starved: bool = False
    """More images arrive than the encoders in pods of their own should carry: requests are late for
    want of encoders, and another replica would not help them."""

    @property
    def pending(self) -> int:
        return max(0, self.replicas - self.ready)
