"""Pods of models pass OpenShift's restricted-v2 where users are left to the namespace."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mm_api.v1alpha1 import UserIds
from mm_devcluster.cluster import ClusterInfo
from support.cases import cases
from support.clusters import namespace
from support.model_namespace import Api
from support.models import SETTINGS
from support.restricted_v2 import admitted, restricted_v2
from support.staged import children, fresh, inspected, planned

pytestmark = pytest.mark.cluster

LEFT = {"runtime": {"userIds": "Namespace"}}
DISAGGREGATED = {"vision": {"placement": "Disaggregated"}}
BUCKET = {"build": {"store": {"s3": {"bucket": "engines"}}}}


@pytest.fixture(scope="module")
def api(control_plane: ClusterInfo) -> Iterator[Api]:
    with (
        namespace(control_plane, "openshift") as name,
        restricted_v2(control_plane, name) as constrained,
    ):
        yield constrained


def pods(changes: dict[str, Any]) -> dict[str, Any]:
    stages = (fresh(changes), inspected(changes), inspected(changes, built=True))
    found = {name: one for stage in stages for name, one in children(stage).items()}
    return {
        name: one["spec"]["template"]["spec"]
        for name, one in found.items()
        if "template" in one.get("spec", {})
    }


ALL = pods(LEFT | DISAGGREGATED) | {
    f"{name} bucket": pod for name, pod in pods(LEFT | BUCKET).items()
}


@pytest.mark.parametrize("pod", [pytest.param(pod, id=name) for name, pod in ALL.items()])
def test_a_pod_is_admitted(api: Api, pod: dict[str, Any]) -> None:
    said = admitted(api, pod)
    assert "created (server dry run)" in said, said


def test_every_kind_of_pod_was_tried() -> None:
    kinds = {"Job/inspect", "Job/build", "Deployment/server", "Deployment/encoder"}
    assert kinds <= ALL.keys()


def test_fixed_users_are_refused(api: Api) -> None:
    """The default names a user that no namespace of OpenShift has: the rules are enforced."""
    said = admitted(api, pods({})["Deployment/server"])
    assert "restricted-v2: user outside of the namespace's range" in said, said


@cases(
    "changes setting user",
    {
        "default": ({}, "Fixed", 65532),
        "operator-leaves-them": ({}, "Namespace", None),
        "model-leaves-them": (LEFT, "Fixed", None),
        "model-fixes-them": ({"runtime": {"userIds": "Fixed"}}, "Namespace", 65532),
    },
)
def test_the_model_goes_before_the_operator(
    changes: dict[str, Any], setting: UserIds, user: int | None
) -> None:
    """A Job's pod follows the field, and without it the operator's setting."""
    snapshot, _ = fresh(changes)
    settings = replace(SETTINGS, user_ids=setting)
    job = children(planned(replace(snapshot, settings=settings)))["Job/inspect"]
    assert job["spec"]["template"]["spec"]["securityContext"].get("runAsUser") == user
