"""Objects under the names of a model's children that are not ours, on a real API server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mm_api import labels
from support.absent_kubelet import built, get, inspected, serving
from support.eventually import eventually
from support.model_documents import document
from support.model_namespace import Api
from support.operator_process import running_operator

pytestmark = pytest.mark.cluster

MODEL = "postgres"
POD = {
    "metadata": {"labels": {"app": "database"}},
    "spec": {"containers": [{"name": "database", "image": "example.org/database:1"}]},
}


def foreign(kind: str, version: str, name: str, **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": "database"}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


SERVICE = foreign(
    "Service", "v1", MODEL, spec={"selector": {"app": "database"}, "ports": [{"port": 5432}]}
)
DEPLOYMENT = foreign(
    "Deployment",
    "apps/v1",
    MODEL,
    spec={"replicas": 0, "selector": {"matchLabels": {"app": "database"}}, "template": POD},
)
FACTS = foreign("ConfigMap", "v1", f"{MODEL}-facts", data={"facts.json": "mine"})
CLAIM = foreign(
    "PersistentVolumeClaim",
    "v1",
    "multimodal-store",
    spec={
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
)


def content(one: dict[str, Any]) -> dict[str, Any]:
    metadata = one["metadata"]
    marks = {name: metadata.get(name) for name in ("uid", "labels", "ownerReferences")}
    return marks | {part: one.get(part) for part in ("spec", "data")}


PLAYED: tuple[Callable[[Api], object], ...] = (
    lambda api: inspected(api, MODEL),
    built,
    lambda api: serving(api, MODEL),
)


@pytest.mark.parametrize(
    ("there", "before"),
    [
        pytest.param(FACTS, 1, id="config-map"),
        pytest.param(CLAIM, 1, id="claim-of-all-models", marks=pytest.mark.slow),
        pytest.param(SERVICE, 2, id="service"),
        pytest.param(DEPLOYMENT, 2, id="deployment", marks=pytest.mark.slow),
    ],
)
def test_a_foreign_object_is_named_and_left_alone(
    watched: Api, there: dict[str, Any], before: int
) -> None:
    """It keeps owner and content; a condition names it, and the model continues once it is gone."""
    kind, name = there["kind"], there["metadata"]["name"]
    watched.apply(there)
    original = content(get(watched, kind, name))
    watched.apply(document(name=MODEL))
    for step in PLAYED[:before]:
        step(watched)
    watched.reaches(MODEL, "Degraded", "NameTaken", f"{kind} {name} exists already")
    assert content(get(watched, kind, name)) == original

    watched.kubectl("delete", kind, name)

    for step in PLAYED[before:]:
        step(watched)
    watched.reaches(MODEL, "Ready", "True")
    assert content(get(watched, kind, name)) != original
    assert watched.condition(MODEL, "Degraded")["status"] == "False"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("service", MODEL, id="its-own-object"),
        pytest.param(
            "configmap", "engine-", id="an-object-that-models-share", marks=pytest.mark.slow
        ),
    ],
)
def test_what_lost_its_labels_is_still_ours(api: Api, tmp_path: Path, kind: str, name: str) -> None:
    """An object that names the model as its owner is repaired, not refused and not made again."""
    with running_operator(api.cluster, tmp_path, api.namespace) as first:
        api.apply(document(name=MODEL))
        for step in PLAYED:
            step(api)
        api.reaches(MODEL, "Ready", "True")
        assert first.stop() == 0  # its Lease is free at once
    api.kubectl("delete", "jobs", "--all")  # what a build left is nowhere but in the ConfigMap
    listed = api.read(kind)["items"]
    before = next(one for one in listed if one["metadata"]["name"].startswith(name))
    marks = [f"{mark}-" for mark in before["metadata"]["labels"]]
    api.kubectl("label", kind, before["metadata"]["name"], *marks)

    with running_operator(api.cluster, tmp_path, api.namespace):

        def repaired() -> bool:
            now = get(api, kind, before["metadata"]["name"])["metadata"]
            return bool(now.get("labels") == before["metadata"]["labels"])

        eventually(repaired, showing=lambda: get(api, kind, before["metadata"]["name"])["metadata"])
        after = get(api, kind, before["metadata"]["name"])
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after.get("data") == before.get("data")
        assert api.condition(MODEL, "Ready").get("status") == "True"
        assert api.condition(MODEL, "Degraded")["status"] == "False"


def test_labels_of_ours_do_not_give_a_foreign_object_away(watched: Api) -> None:
    """What another controller owns stays its own, also where it carries a copy of our labels."""
    marks = {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE, labels.MODEL: MODEL}
    watched.apply(foreign("ConfigMap", "v1", "database", data={}))
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "database",
        "uid": get(watched, "configmap", "database")["metadata"]["uid"],
        "controller": True,
    }
    copied = {**FACTS, "metadata": {**FACTS["metadata"], "labels": marks}}
    copied["metadata"] |= {"ownerReferences": [owner]}
    watched.apply(copied)
    original = content(get(watched, "configmap", f"{MODEL}-facts"))
    watched.apply(document(name=MODEL))
    inspected(watched, MODEL)

    watched.reaches(MODEL, "Degraded", "NameTaken", "is controlled by ConfigMap database")
    assert content(get(watched, "configmap", f"{MODEL}-facts")) == original
