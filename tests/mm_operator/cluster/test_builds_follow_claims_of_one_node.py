"""Claims of users on a real API server: who may attach them, and where Jobs then wish to run."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_api import labels
from mm_operator.cluster.claims import Attached, attached_by
from support.absent_kubelet import built, inspected, serving, wait_for_pod
from support.cases import cases
from support.clusters import apply, kubectl
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator
from support.volumes import bound

pytestmark = pytest.mark.cluster

ANY, NODE, POD = Attached.BY_ANY, Attached.BY_ONE_NODE, Attached.BY_ONE_POD

STORE = {"persistentVolumeClaim": {"claimName": "engines"}}
SHARED, ALONE, ALONE_POD = "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"


@cases(
    "requested bound expected",
    {
        "not-bound": ([ALONE], [], NODE),
        "one-node": ([ALONE], [ALONE], NODE),
        "its-volume-can-do-more": ([ALONE], [ALONE, SHARED], ANY),
        "several-nodes": ([SHARED], [SHARED], ANY),
        "read-by-several": (["ReadOnlyMany"], [], ANY),
        "one-pod": ([ALONE_POD], [ALONE_POD], POD),
        "one-pod-not-bound": ([ALONE_POD], [], POD),
        "missing": ([], [], ANY),
    },
)
def test_modes_say_who_may_attach(
    requested: list[str], bound: list[str], expected: Attached
) -> None:
    """What the volume can do counts, and until there is one what the claim requests."""
    claim = {"spec": {"accessModes": requested}, "status": {"accessModes": bound}}
    assert expected == attached_by(claim)


def claim_on_a_disk(api: Api, mode: str) -> str:
    """Make a claim bound to a volume of one mode; return the volume's name."""
    volume = f"engines-{uuid4().hex[:8]}"
    apply(api.cluster, *bound(volume, api.namespace, "engines", mode=mode))
    return volume


def wished(pod: dict[str, Any]) -> list[list[str]]:
    affinity = pod["spec"].get("affinity", {}).get("podAffinity", {})
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    selectors = [one["podAffinityTerm"]["labelSelector"] for one in terms]
    return [one["matchExpressions"][0]["values"] for one in selectors]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(ALONE, [["first", "second"]], id="one-node"),
        pytest.param(SHARED, [], id="several-nodes", marks=pytest.mark.slow),
    ],
)
def test_a_second_build_follows_the_first_models_pods(
    api: Api, tmp_path: Path, mode: str, expected: list[list[str]]
) -> None:
    """A model serves from the claim; the next engine is built where its pods are."""
    volume = claim_on_a_disk(api, mode)
    build = f"{labels.APP_COMPONENT}={labels.Component.BUILD}"
    try:
        with running_operator(api.cluster, tmp_path, api.namespace):
            api.apply(document({"build": {"store": STORE}}, name="first"))
            inspected(api, "first")
            built(api)
            eventually(lambda: api.names("deployments"))
            serving(api, "first")
            other = {"build": {"store": STORE}, "engine": {"maxBatchSize": 2}}
            api.apply(document(other, name="second"))
            inspected(api, "second")
            assert expected == wished(wait_for_pod(api, build))
    finally:
        kubectl(api.cluster, "delete", "pv", volume, "--wait=false")


def test_a_store_of_one_pod_is_refused(api: Api, tmp_path: Path) -> None:
    """A user reads why in the status, and nothing has started."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "engines", "namespace": api.namespace},
        "spec": {
            "accessModes": [ALONE_POD],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    apply(api.cluster, claim)
    with running_operator(api.cluster, tmp_path, api.namespace):
        api.apply(document({"build": {"store": STORE}}, name="first"))
        planned = eventually(lambda: api.condition("first", "Planned"))
    assert (planned["status"], planned["reason"]) == ("False", "NotSupported")
    assert "claim engines is ReadWriteOncePod" in planned["message"]
    assert not api.names("jobs")
