"""One model, or its encoders in pods of their own, in one tick: what is looked at, and read."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mm_api.v1alpha1 import AutoscalingSpec, MultimodalModelSpec, duration
from mm_operator.autoscaling import (
    ENCODERS,
    SETTLE_SECONDS,
    Decision,
    LatencyMetric,
    LatencyObjective,
    Objectives,
    SlotMember,
)
from mm_operator.cluster.models import ModelRecord
from mm_operator.scaling.model_autoscaler import ModelAutoscaler, Requested
from mm_operator.scaling.pods import ScaledPod
from mm_operator.scaling.reader import Answers
from mm_operator.scaling.traffic import Reading, read_encoders, read_traffic
from mm_operator.scaling.view import moment_of

Slot = tuple[str, str]
"""Namespace, and name of a slot in it."""


ENCODER_SLOTS = 2
"""One request is encoded and one waits: batches of images gain little (`mm_api.vision_runs`)."""


_OVERDUE_SECONDS = 60.0
"""A pod that has not ended so long after its grace period is on a node that is gone, as its GPU."""


def encoders_of(uid: str) -> str:
    """Return what the view of a model's encoders is found by."""
    return f"{uid}/encoders"


@dataclass(slots=True)
class Evaluation:
    """One model in one tick."""

    record: ModelRecord
    spec: MultimodalModelSpec
    requested: Requested
    autoscaler: ModelAutoscaler
    pods: Sequence[ScaledPod]
    names: Sequence[str]
    """Names of the pods, and of those that went within the longest window."""
    problem: str = ""
    objectives: Objectives = field(init=False)
    series: Answers = field(default_factory=dict)
    turn: Decision | None = None
    """Where another model of its slot has the GPU; the load decides nothing then."""
    servers: Sequence[str] | None = None
    """Names of the pods that images come to, if this is about encoders; None: about those pods."""

    def __post_init__(self) -> None:
        self.objectives = objectives_of(
            self.requested.spec, slots_per_replica=self.requested.slots_per_replica
        )
        if self.servers is not None:
            self.objectives = replace(self.objectives, tuning=ENCODERS)

    @property
    def slot(self) -> Slot | None:
        slot = self.spec.runtime.gpu.slot
        return (self.record.key.namespace, slot) if slot else None

    @property
    def uid(self) -> str:
        """Return what its autoscaler and its view are found by."""
        uid = self.record.uid
        return uid if self.servers is None else encoders_of(uid)

    def member(self, held: int, waited_seconds: float, at: float) -> SlotMember:
        """Return what the model is among those of its slot.

        `held`, `waited_seconds`: requests that wait in routers, and how long the oldest of them
        has. `at`: Unix seconds.
        """
        overdue = at - _OVERDUE_SECONDS
        there = [
            one
            for one in self.pods
            if not one.ended and (one.ends_at is None or one.ends_at >= overdue)
        ]
        history = self.autoscaler.history
        given = (moment_of(one) for one in history if one.to_replicas > one.from_replicas)
        ready = [
            one.ready_at for one in there if one.ready and not one.terminating and one.ready_at
        ]
        return SlotMember(
            name=self.record.key.name,
            replicas=self.requested.replicas,
            pods=len(there),
            held=held,
            held_since=at - waited_seconds if held else None,
            started_at=next(given, None),
            ready_at=min(ready, default=None),
            start_seconds=self.autoscaler.cold_starts.seconds(),
            deadline_seconds=duration.parse(self.spec.rollout.progress_deadline).total_seconds(),
        )

    def read(self, now: float) -> Reading:
        """Return the load, or why it is unknown."""
        namespace = self.record.key.namespace
        if self.problem:
            return Reading(None, self.problem)
        if self.servers is not None:
            return read_encoders(
                namespace=namespace,
                pods=self.pods,
                former=self.names,
                servers=self.servers,
                series=self.series,
            )
        return read_traffic(
            namespace=namespace,
            pods=self.pods,
            former=self.names,
            series=self.series,
            objectives=self.objectives.latencies,
            now=now,
            encoded_elsewhere=self.requested.encoded_elsewhere,
        )


def objectives_of(spec: AutoscalingSpec, *, slots_per_replica: int) -> Objectives:
    """Return the objectives of one model; `slots_per_replica`: requests that one runs at a time."""
    fallback, window = spec.fallback, spec.behavior.scale_down.stabilization_window_seconds
    return Objectives(
        min_replicas=spec.min_replicas,
        max_replicas=spec.max_replicas,
        latencies=tuple(
            LatencyObjective(
                metric=LatencyMetric(one.metric),
                percentile=one.percentile,
                target_seconds=duration.parse(one.target).total_seconds(),
            )
            for one in spec.objectives
        ),
        slots_per_replica=slots_per_replica,
        idle_seconds=duration.parse(spec.scale_to_zero_after).total_seconds(),
        warm_replicas=spec.warm_replicas,
        fallback_replicas=fallback.replicas if fallback else None,
        fallback_ticks=fallback.failures if fallback else 0,
        scale_up=spec.behavior.scale_up,
        scale_down=spec.behavior.scale_down,
        settle_seconds=SETTLE_SECONDS if window is None else float(window),
    )
