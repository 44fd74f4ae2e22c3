"""What is remembered of a model: changes, starts, and when the status is worth a write."""

from dataclasses import replace
from typing import Any

from mm_api.v1alpha1 import AutoscalingSpec
from mm_operator.autoscaling import RequestRate, Traffic, WorkCost
from mm_operator.scaling.costs import Measured
from mm_operator.scaling.evaluation import objectives_of
from mm_operator.scaling.model_autoscaler import REPUBLISH_SECONDS, ModelAutoscaler, Requested
from mm_operator.scaling.pods import ColdStarts, ScaledPod, scaled_pod
from mm_operator.scaling.traffic import Reading
from mm_operator.scaling.view import ScalingAuthority, change
from support.cases import cases

NOW = 1_000_000.0
SPEC = AutoscalingSpec.model_validate(
    {"maxReplicas": 4, "objectives": [{"metric": "TimeToFirstToken", "target": "500ms"}]}
)
POD = ScaledPod("a", "1", ready=True, terminating=False, created_at=0.0, ready_at=1.0)


def reading(in_flight: float) -> Reading:
    quiet = RequestRate(requests=1.0, image_tokens=0.0, text_tokens=10.0)
    return Reading(Traffic(quiet, quiet, mean_output_tokens=None, in_flight=in_flight))


def tick(autoscaler: ModelAutoscaler, now: float, *, in_flight: float, replicas: int = 1) -> Any:
    requested = Requested(SPEC, replicas, slots_per_replica=1)
    autoscaler.others_moved(requested, now)
    pods = [replace(POD, name=str(n), uid=str(n)) for n in range(replicas)]
    objectives = objectives_of(SPEC, slots_per_replica=1)
    decision = autoscaler.decide(
        requested, objectives, pods=pods, reading=reading(in_flight), now=now
    )
    return autoscaler.publish(requested, decision, ScalingAuthority(), now)


def test_numbers_alone_wait_and_decisions_do_not() -> None:
    autoscaler = ModelAutoscaler({}, NOW, 1)

    assert tick(autoscaler, NOW, in_flight=0.30) is not None
    assert tick(autoscaler, NOW + 15, in_flight=0.30) is None
    assert tick(autoscaler, NOW + 30, in_flight=0.29) is None
    assert tick(autoscaler, NOW + REPUBLISH_SECONDS, in_flight=0.28) is not None
    moved = tick(autoscaler, NOW + REPUBLISH_SECONDS + 15, in_flight=2.0)
    assert moved.status.desired > 1


def test_an_idle_model_is_not_written_again() -> None:
    autoscaler = ModelAutoscaler({}, NOW, 1)
    views = [tick(autoscaler, NOW + 15 * n, in_flight=0.0) for n in range(100)]

    assert views[0] is not None
    assert sum(view is not None for view in views) <= 3  # what is young becomes old once


def test_a_new_leader_knows_the_changes() -> None:
    entry = change(NOW - 60, 1, 2, "Demand").model_dump(by_alias=True)
    autoscaler = ModelAutoscaler({"history": [entry], "coldStartSeconds": 40.0}, NOW, 2)

    assert autoscaler.state.changed_at == NOW - 60
    assert autoscaler.cold_starts.seconds() == 40.0
    assert ModelAutoscaler({"history": "none"}, NOW, 2).history == []
    assert ModelAutoscaler({"history": [{**entry, "time": "yesterday"}]}, NOW, 2).history == []


def test_a_change_of_the_future_is_one_of_now() -> None:
    """A former leader whose clock was an hour ahead does not stop this one for an hour."""
    entry = change(NOW + 3600, 1, 2, "Demand").model_dump(by_alias=True)
    state = ModelAutoscaler({"history": [entry]}, NOW, 2).state

    assert (state.changed_at, [one.at for one in state.changes]) == (NOW, [NOW])


def test_a_change_back_within_minutes_is_a_reversal() -> None:
    autoscaler = ModelAutoscaler({}, NOW, 1)
    autoscaler.moved(1, 2, "up", NOW)
    autoscaler.moved(2, 1, "down", NOW + 60)
    autoscaler.moved(1, 2, "up", NOW + 2000)

    assert autoscaler.counts["mm_autoscaling_reversals_total", ""] == 1
    assert autoscaler.counts["mm_autoscaling_changes_total", "up"] == 2


def pod(containers: str = "initContainerStatuses", **changes: Any) -> dict[str, Any]:
    """Return a serving pod that took 1 s to be scheduled, 2 to pull, 5 to load, 3 to warm up."""
    moments = {"PodScheduled": 0, "Initialized": 7, "Ready": 10}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": f"2026-01-01T00:00:{second:02}Z"}
        for kind, second in moments.items()
    ]
    server = {"state": {"running": {"startedAt": "2026-01-01T00:00:02Z"}}, "restartCount": 0}
    metadata = {"name": "a", "uid": "1", "creationTimestamp": "2025-12-31T23:59:59Z"}
    status = {"conditions": conditions, containers: [server | changes]}
    return {"metadata": metadata, "status": status}


@cases("containers", {"server": "initContainerStatuses", "only-an-encoder": "containerStatuses"})
def test_starts_are_measured_by_phase(containers: str) -> None:
    """From the pod's own status: scheduled, pulled, loaded, warm, and all from scheduled on."""
    starts = ColdStarts()
    starts.see([scaled_pod(pod(containers))])

    assert starts.phases() == {
        "scheduled": 1.0,
        "pulled": 2.0,
        "loaded": 5.0,
        "warm": 3.0,
        "total": 10.0,
    }
    assert starts.seconds() == 10.0


def test_measured_costs_are_the_demand_and_are_remembered() -> None:
    """What pods measured replaces slots taken, is shown, and survives silence and a new leader."""
    cost = WorkCost(2.0, 0.0, 0.1, 0.0)
    reported = Measured({"request": 2.0, "text_token": 0.1})
    autoscaler, requested = ModelAutoscaler({}, NOW, 1), Requested(SPEC, 1, slots_per_replica=1)
    objectives = objectives_of(SPEC, slots_per_replica=1)
    measured = replace(reading(0.0), costs=reported)
    first = autoscaler.decide(requested, objectives, pods=[POD], reading=measured, now=NOW)
    later = autoscaler.decide(requested, objectives, pods=[POD], reading=reading(0.0), now=NOW + 15)
    view = autoscaler.publish(requested, later, ScalingAuthority(), NOW + 15)

    assert first.inputs["demandSteady"] == later.inputs["demandSteady"] == 3.0
    written = view.status.model_dump(by_alias=True, mode="json")
    assert written["work"]["requestSeconds"] == 2.0
    assert ModelAutoscaler(written, NOW + 30, 1).cost == cost


@cases("changes", {"restarted": {"restartCount": 1}, "not-run": {"state": {}}})
def test_a_repair_is_no_start(changes: dict[str, Any]) -> None:
    starts = ColdStarts(30.0)
    starts.see([scaled_pod(pod(**changes))])

    assert starts.seconds() == 30.0
