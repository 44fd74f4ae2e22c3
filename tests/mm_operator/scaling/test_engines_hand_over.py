"""Who moves replicas may change; the number does not change by that, and never two move it."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.clusters import apply
from support.eventually import eventually
from support.keda_definitions import FILES, install_keda_definitions
from support.model_namespace import Api
from support.prometheus import Prometheus
from support.scaled_models import active, load, operated, replicas, scaled, scaling, start
from support.scripted_gateways import ScriptedGateways

pytestmark = pytest.mark.cluster

OBJECTS = {"Builtin": [], "KEDA": ["scaledobject"]}


def objects(api: Api) -> list[str]:
    return [kind for kind in ("hpa", "scaledobject") if get_all(api, kind)]


def get_all(api: Api, kind: str) -> list[dict[str, Any]]:
    return list(api.read(kind)["items"])


def test_every_handover_leaves_the_replicas(
    api: Api, gateways: ScriptedGateways, prometheus: Prometheus, tmp_path: Path
) -> None:
    """From each engine to each other: the object of the new one, none of the old, the same number.

    KEDA does not run, its objects are what counts.
    """
    install_keda_definitions(api.cluster)
    with operated(api, tmp_path, "--keda", prometheus=prometheus.address):
        model = scaled(minReplicas=3)
        model["spec"]["replicas"] = 3
        start(api, model)
        load(api, gateways, requests_running=0.1, requests_accepted_total=3)
        eventually(lambda: scaling(api).get("desired") == 3, showing=lambda: scaling(api))

        for engine in ("Builtin", "KEDA", "Builtin"):
            patch = json.dumps({"spec": {"autoscaling": {"engine": engine}}})
            api.kubectl("patch", "mmm", "llava", "--type=merge", "-p", patch)
            expected = OBJECTS[engine]
            eventually(lambda e=expected: objects(api) == e, showing=lambda: objects(api))
            eventually(lambda: active(api).get("status") == "True", showing=lambda: active(api))
            assert (replicas(api), scaling(api)["history"]) == (3, [])


@pytest.mark.slow  # a kind that is missing is looked for every 30 s
def test_keda_may_come_later(
    api: Api, gateways: ScriptedGateways, prometheus: Prometheus, tmp_path: Path
) -> None:
    """Without KEDA's definitions the operator works, says what is missing and moves nothing."""
    for file in FILES:
        name = f"{file.stem.removeprefix('keda.sh_')}.keda.sh"
        api.kubectl("delete", "crd", name, "--ignore-not-found")
    with operated(api, tmp_path, "--keda", prometheus=prometheus.address):
        start(api, scaled(engine="KEDA", minReplicas=4))
        load(api, gateways, requests_running=0.1, requests_accepted_total=3)

        eventually(lambda: scaling(api).get("desired") == 4, showing=lambda: scaling(api))
        assert active(api)["reason"] == "EngineNotAvailable"
        assert "install KEDA" in active(api)["message"]
        assert replicas(api) == 1

        install_keda_definitions(api.cluster)
        eventually(
            lambda: objects(api) == ["scaledobject"], seconds=90, showing=lambda: active(api)
        )
        eventually(lambda: active(api).get("status") == "True", showing=lambda: active(api))


@pytest.mark.slow  # the operator looks at its neighbours every 30 s
def test_a_second_owner_takes_ours_away(
    api: Api, gateways: ScriptedGateways, prometheus: Prometheus, tmp_path: Path
) -> None:
    """Where an autoscaler of others is, no ScaledObject of ours is made; KEDA's own is no other."""
    install_keda_definitions(api.cluster)
    with operated(api, tmp_path, "--keda", prometheus=prometheus.address):
        rival = ["--name=rival", "--min=1", "--max=4", "multimodalmodel/llava"]
        start(api, scaled())
        load(api, gateways, requests_running=0.7, requests_accepted_total=3)
        eventually(lambda: active(api).get("status") == "True", showing=lambda: active(api))
        api.kubectl("autoscale", *rival)

        patch = json.dumps({"spec": {"autoscaling": {"engine": "KEDA"}}})
        api.kubectl("patch", "mmm", "llava", "--type=merge", "-p", patch)

        eventually(lambda: active(api).get("reason") == "ReplicasContested")
        assert "HorizontalPodAutoscaler rival moves the replicas too" in active(api)["message"]
        assert get_all(api, "scaledobject") == []

        api.kubectl("delete", "hpa", "rival")
        eventually(lambda: get_all(api, "scaledobject"))
        [made] = get_all(api, "scaledobject")
        apply(api.cluster, by_keda(api, made))

        # Long enough that the operator has looked at its neighbours again, and pruned.
        api.kubectl("annotate", "mmm", "llava", "look=again")
        eventually(lambda: active(api).get("status") == "True", showing=lambda: active(api))
        assert [one["metadata"]["name"] for one in get_all(api, "hpa")] == ["keda-hpa-llava"]

        # A KEDA that is away: it took the object on, and does not let it go.
        hold(api, finalizers=["finalizer.keda.sh"])
        back = json.dumps({"spec": {"autoscaling": {"engine": "Builtin"}}})
        api.kubectl("patch", "mmm", "llava", "--type=merge", "-p", back)

        eventually(lambda: active(api).get("reason") == "ReplicasContested")
        assert "keda-hpa-llava" in active(api)["message"]

        hold(api, finalizers=[])
        eventually(lambda: objects(api) == [])
        eventually(lambda: active(api).get("status") == "True", showing=lambda: active(api))


def hold(api: Api, *, finalizers: list[str]) -> None:
    patch = json.dumps({"metadata": {"finalizers": finalizers}})
    api.kubectl("patch", "scaledobject", "llava", "--type=merge", "-p", patch)


def by_keda(api: Api, scaled_object: dict[str, Any]) -> dict[str, Any]:
    metadata = scaled_object["metadata"]
    target = scaled_object["spec"]["scaleTargetRef"]
    metric = {"metric": {"name": "s0-prometheus"}, "target": {"type": "AverageValue"}}
    metric["target"]["averageValue"] = "1"
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": "keda-hpa-llava",
            "namespace": api.namespace,
            "labels": metadata["labels"],
            "ownerReferences": [
                {
                    "apiVersion": "keda.sh/v1alpha1",
                    "kind": "ScaledObject",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [{"type": "External", "external": metric}],
        },
    }
