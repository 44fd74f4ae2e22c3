"""The Deployments of a model replace pods as spec.rollout says."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mm_api.conditions import Reason
from mm_api.v1alpha1 import ScalingStatus
from mm_operator.model import DeploymentState, ScalingView
from support.cases import cases
from support.model_documents import in_slot
from support.staged import children, inspected


def rolling(surge: int, missing: int) -> dict[str, Any]:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing},
    }


@cases(
    "rollout expected",
    {
        "default": ({}, rolling(1, 0)),
        "several-at-a-time": ({"maxSurge": 3}, rolling(3, 0)),
        "no-surge": ({"maxSurge": 0, "maxUnavailable": 2}, rolling(0, 2)),
        "both": ({"maxUnavailable": 1}, rolling(1, 1)),
        "recreate": ({"strategy": "Recreate"}, {"type": "Recreate"}),
    },
)
def test_servers_and_encoders_alike(rollout: Mapping[str, Any], expected: dict[str, Any]) -> None:
    """Encoders in pods of their own hold GPUs, too."""
    spec = {"rollout": rollout, "vision": {"placement": "Disaggregated"}}
    made = children(inspected(spec, built=True))
    for component in ("server", "encoder"):
        assert made[f"Deployment/{component}"]["spec"]["strategy"] == expected


def test_a_slot_changes_no_pod() -> None:
    snapshot, plan = inspected(in_slot(), built=True)
    alone = children(inspected(in_slot(runtime={}), built=True))
    assert children((snapshot, plan))["Deployment/server"] == alone["Deployment/server"]
    assert plan.engine is not None
    assert "runtime.gpu.slot" in {one.field for one in plan.engine.reasons}


@cases("replicas encoders", {"asleep": (0, 0), "one": (1, 3), "two": (2, 3)})
def test_encoders_go_to_zero_with_their_model(replicas: int, encoders: int) -> None:
    vision = {"placement": "Disaggregated", "replicas": 3}
    made = children(inspected({"replicas": replicas, "vision": vision}, built=True))
    assert made["Deployment/encoder"]["spec"]["replicas"] == encoders


@cases(
    "wanted live expected",
    {"new": (None, None, 1), "as-it-was": (None, 3, 3), "wanted": (2, 3, 2), "bounded": (9, 3, 4)},
)
def test_encoders_have_the_replicas_that_are_wanted(
    wanted: int | None, live: int | None, expected: int
) -> None:
    """Until a new leader has looked, as many as there are."""
    own = {"nodeSelector": {"pool": "cpu"}, "autoscaling": {"maxReplicas": 4}}
    spec = {
        "vision": {"placement": "Disaggregated", **own},
        "runtime": {"nodeSelector": {"pool": "gpu"}},
    }
    snapshot, plan = inspected(spec, built=True)
    view = ScalingView(
        ScalingStatus(desired=wanted), active=True, reason=Reason.FOLLOWING_LOAD, message=""
    )
    there = live and DeploymentState("llava-encoders", "u", 1, 1, live, live, live, live, live)
    snapshot = replace(
        snapshot,
        encoder_scaling=view if wanted else None,
        observed=replace(snapshot.observed, encoders=there or None),
    )
    made = children((snapshot, plan))
    assert made["Deployment/encoder"]["spec"]["replicas"] == expected
    pools = [
        made[f"Deployment/{one}"]["spec"]["template"]["spec"]["nodeSelector"]["pool"]
        for one in ("server", "encoder")
    ]
    assert pools == ["gpu", "cpu"]


@cases(
    "replicas pods kept",
    {
        "no-deployment-yet": (3, None, False),
        "one-pod-of-three": (3, 1, False),
        "two-pods-of-three": (3, 2, True),
        "three-pods": (3, 3, True),
        "on-the-way-to-one": (1, 2, False),
    },
)
def test_a_budget_keeps_pods_that_exist(replicas: int, pods: int | None, *, kept: bool) -> None:
    """It comes with the second pod, after the Deployment, and goes with the wish for it."""
    snapshot, plan = inspected({"replicas": replicas}, built=True)
    if pods is not None:
        deployment = DeploymentState(snapshot.name, "u", 1, 1, replicas, pods, 0, 0, 0)
        observed = replace(snapshot.observed, deployment=deployment)
        snapshot = replace(snapshot, observed=observed)

    objects = children((snapshot, plan))

    assert ("PodDisruptionBudget/server" in objects) is kept
    if kept:
        spec = objects["PodDisruptionBudget/server"]["spec"]
        template = objects["Deployment/server"]["spec"]["template"]
        assert spec["maxUnavailable"] == 1
        assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
