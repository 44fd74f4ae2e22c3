"""Claims on a real API server: who may attach them, where Jobs then wish to run, which grow."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mm_api import labels
from mm_operator import names
from mm_operator.cluster.claims import Attached, attached_by
from support.absent_kubelet import built, get, inspected, serving, wait_for_pod
from support.cases import cases
from support.clusters import apply, kubectl
from support.eventually import eventually
from support.model_documents import at, document
from support.model_namespace import Api
from support.operator_process import running_operator
from support.volumes import bound, made

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


@contextmanager
def volume(api: Api) -> Iterator[None]:
    """Have a volume that only the store's claim of this namespace may bind."""
    found, _ = bound(api.namespace, api.namespace, names.STORE_CLAIM, mode=ALONE)
    with made(api.cluster, found):
        yield


@pytest.mark.slow
def test_a_second_model_takes_the_store_as_it_is(api: Api, tmp_path: Path) -> None:
    """Without a size it builds; with a larger one it says which field to correct."""
    other = {"engine": {"maxBatchSize": 3}}
    larger, same = (other | at("build.store.size", size) for size in ("2Gi", "1Gi"))
    with volume(api), running_operator(api.cluster, tmp_path, api.namespace):
        api.apply(document(at("build.store.size", "1Gi"), name="first"))
        inspected(api, "first")
        eventually(lambda: get(api, "pvc", names.STORE_CLAIM)["status"]["phase"] == "Bound")
        api.apply(document(other, name="second"))
        inspected(api, "second")
        builds = f"{labels.APP_COMPONENT}={labels.Component.BUILD}"
        eventually(lambda: len(api.names("jobs", "-l", builds)) == 2)

        api.apply(document(larger, name="second"))
        found = api.reaches("second", "Degraded", "StoreCannotGrow")
        assert found["message"].startswith(
            "spec.build.store.size requests 2Gi (2,147,483,648 bytes), and claim multimodal-store "
            "of this namespace has 1Gi (1,073,741,824 bytes) and cannot grow"
        )

        assert api.apply(document(same, name="second")).endswith("configured\n")
        api.reaches("second", "Degraded", "AsExpected")
        size = get(api, "pvc", names.STORE_CLAIM)["spec"]["resources"]["requests"]["storage"]
        assert size == "1Gi"
