"""A second model's store on a real API server and operator: taken as it is, or refused by field."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mm_api import labels
from mm_operator import names
from support.absent_kubelet import get, inspected
from support.eventually import eventually
from support.model_documents import at, document
from support.model_namespace import Api
from support.operator_process import running_operator
from support.volumes import made

pytestmark = pytest.mark.cluster


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
