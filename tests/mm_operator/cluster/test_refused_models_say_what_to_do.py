"""A namespace without its label, and a second model's store: a real API server and operator."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from mm_api import labels
from mm_operator import names
from mm_operator.cluster.namespaces import LEASE_NAME
from support.absent_kubelet import get, inspected
from support.chart import rendered
from support.clusters import kubectl
from support.eventually import eventually
from support.model_documents import at, document
from support.model_namespace import Api
from support.operator_process import running_operator
from support.volumes import made

pytestmark = pytest.mark.cluster


def conditions(api: Api, model: str) -> dict[str, tuple[str, str, str]]:
    found = (api.read("mmm", model).get("status") or {}).get("conditions") or []
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found}


@contextmanager
def policy(api: Api) -> Iterator[None]:
    """Bind the chart's own rules, for Leases of one namespace, to everyone."""
    made = [one for one in rendered() if one["kind"].startswith("ValidatingAdmissionPolicy")]
    for one in made:
        one["metadata"]["name"] = api.namespace
        spec = one["spec"]
        if "policyName" in spec:
            spec["policyName"] = api.namespace
            continue
        spec["matchConditions"] = [
            {
                "name": "leases-here",
                "expression": f"request.namespace == '{api.namespace}' && "
                f"request.name == '{LEASE_NAME}'",
            }
        ]
        spec["matchConstraints"]["resourceRules"][0]["operations"] = ["CREATE", "UPDATE"]
    text = yaml.safe_dump_all(made)
    kubectl(api.cluster, "apply", "-f", "-", stdin=text)
    try:
        probe = yaml.safe_dump(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {
                    "name": LEASE_NAME,
                    "labels": {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE},
                },
            }
        )
        create = ("create", "--dry-run=server", "-f", "-")
        # A policy counts about a second after it was made.
        eventually(lambda: "opted in" in api.kubectl(*create, stdin=probe, check=False))
        yield
    finally:
        kubectl(api.cluster, "delete", "-f", "-", "--wait=false", stdin=text)


def test_a_namespace_without_its_label(api: Api, tmp_path: Path) -> None:
    """Ready and Degraded have the reason, and first the command that helps; it helps at once."""
    command = f"label namespace {api.namespace} {labels.ENABLED}=true"
    kubectl(api.cluster, "label", "namespace", api.namespace, f"{labels.ENABLED}-")
    with policy(api), running_operator(api.cluster, tmp_path, api.namespace) as operator:
        api.apply(document(name="llava"))
        found = eventually(lambda: conditions(api, "llava"), showing=operator.log.read_text)
        ready, degraded = found["Ready"], found["Degraded"]
        assert (ready[:2], degraded[:2]) == (
            ("False", "NamespaceNotEnabled"),
            ("True", "NamespaceNotEnabled"),
        )
        assert ready[2] == degraded[2]
        assert ready[2].startswith(f"kubectl {command}: ")

        kubectl(api.cluster, *command.split())
        eventually(lambda: api.names("jobs"), showing=operator.log.read_text)
        eventually(lambda: conditions(api, "llava")["Degraded"][1] == "AsExpected")


@contextmanager
def volume(api: Api) -> Iterator[None]:
    """Have a volume that only the store's claim of this namespace may bind."""
    found = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": api.namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": api.namespace, "name": names.STORE_CLAIM},
        },
    }
    with made(api.cluster, found):
        yield


@pytest.mark.slow
def test_a_second_model_takes_the_store_as_it_is(api: Api, tmp_path: Path) -> None:
    """Without a size it builds; with a larger one it says which field to correct."""
    other = {"engine": {"maxBatchSize": 3}}
    larger, same = (other | at("build.store.size", size) for size in ("2Gi", "1Gi"))
    with volume(api), running_operator(api.cluster, tmp_path, api.namespace) as operator:
        api.apply(document(at("build.store.size", "1Gi"), name="first"))
        inspected(api, "first")
        eventually(lambda: get(api, "pvc", names.STORE_CLAIM)["status"]["phase"] == "Bound")
        api.apply(document(other, name="second"))
        inspected(api, "second")
        builds = f"{labels.APP_COMPONENT}={labels.Component.BUILD}"
        eventually(lambda: len(api.names("jobs", "-l", builds)) == 2)

        api.apply(document(larger, name="second"))
        found = eventually(
            lambda: (one := conditions(api, "second"))["Degraded"][1] == "StoreCannotGrow" and one,
            showing=operator.log.read_text,
        )
        assert found["Degraded"][2].startswith(
            "spec.build.store.size requests 2Gi (2,147,483,648 bytes), and claim multimodal-store "
            "of this namespace has 1Gi (1,073,741,824 bytes) and cannot grow"
        )

        assert api.apply(document(same, name="second")).endswith("configured\n")
        eventually(lambda: conditions(api, "second")["Degraded"][1] == "AsExpected")
        size = get(api, "pvc", names.STORE_CLAIM)["spec"]["resources"]["requests"]["storage"]
        assert size == "1Gi"
