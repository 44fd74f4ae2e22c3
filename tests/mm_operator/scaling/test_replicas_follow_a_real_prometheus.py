"""On a real API server, with a real Prometheus: replicas follow the load, and say why."""

from pathlib import Path

import pytest

from support.absent_kubelet import serving
from support.eventually import eventually
from support.model_namespace import Api
from support.prometheus import Prometheus
from support.scaled_models import active, load, operated, replicas, scaled, scaling, start
from support.scripted_gateways import ScriptedGateways

pytestmark = pytest.mark.cluster


def test_load_raises_replicas_and_the_reason_is_reported(
    api: Api, gateways: ScriptedGateways, prometheus: Prometheus, tmp_path: Path
) -> None:
    with operated(api, tmp_path, prometheus=prometheus.address) as operator:
        start(api, scaled())
        load(api, gateways, requests_running=1, requests_waiting=2, requests_accepted_total=3)

        eventually(lambda: replicas(api) == 4, showing=lambda: scaling(api))
        eventually(lambda: scaling(api).get("desired") == 4)
        eventually(lambda: scaling(api).get("history"))
        reported = scaling(api)
        assert reported["history"][0]["toReplicas"] == 4
        assert reported["inputs"]["inFlightRequests"] == 3
        assert active(api)["reason"] in {"FollowingLoad", "CapacityLimited"}
        eventually(lambda: "ScaledUp" in reasons(api), showing=lambda: reasons(api))
        assert 'mm_autoscaling_desired_replicas{model="llava"' in operator.metrics()


def reasons(api: Api) -> set[str]:
    items = api.read("events")["items"]
    return {one["reason"] for one in items}


@pytest.mark.slow
def test_silence_restart_and_other_hands_move_nothing(
    api: Api, gateways: ScriptedGateways, prometheus: Prometheus, tmp_path: Path
) -> None:
    with operated(api, tmp_path, prometheus=prometheus.address):
        start(api, scaled())
        load(api, gateways, requests_running=0.5, requests_waiting=0.3, requests_accepted_total=3)
        eventually(lambda: replicas(api) == 3, showing=lambda: scaling(api))
        serving(api, "llava")
        load(api, gateways, requests_running=0.1, requests_accepted_total=3)

        gateways.broken = "this is no exposition\n"

        eventually(lambda: active(api).get("reason") == "MetricsMissing")
        assert "replicas stay as they are: Prometheus has" in active(api)["message"]
        assert replicas(api) == 3
    with operated(api, tmp_path, lease="two", prometheus=prometheus.address):
        eventually(lambda: active(api).get("reason") == "MetricsMissing")
        gateways.broken = ""
        eventually(lambda: active(api).get("status") == "True", showing=lambda: active(api))
        reported = scaling(api)
        assert (replicas(api), reported["desired"]) == (3, 3)
        assert [one["toReplicas"] for one in reported["history"]] == [3]

        api.apply(scaled(minReplicas=3))
        api.kubectl("scale", "mmm", "llava", "--replicas=2")

        eventually(lambda: len(scaling(api)["history"]) >= 3)
        back, other = scaling(api)["history"][:2]
        assert (other["reason"], other["toReplicas"], back["toReplicas"]) == ("SetBy others", 2, 3)

        target = ["--name=rival", "--max=4", "multimodalmodel/llava"]
        api.kubectl("autoscale", *target)
        api.kubectl("scale", "mmm", "llava", "--replicas=4")

        eventually(lambda: active(api).get("reason") == "ReplicasContested")
        assert "HorizontalPodAutoscaler rival moves the replicas too" in active(api)["message"]
        assert replicas(api) == 4


@pytest.mark.slow
def test_recommendations_move_nothing(
    api: Api, gateways: ScriptedGateways, prometheus: Prometheus, tmp_path: Path
) -> None:
    with operated(api, tmp_path, prometheus=prometheus.address):
        start(api, scaled(mode="Recommend"))
        load(api, gateways, requests_running=0.5, requests_waiting=0.3, requests_accepted_total=3)

        eventually(lambda: scaling(api).get("desired") == 3, showing=lambda: scaling(api))
        assert (replicas(api), active(api)["reason"]) == (1, "RecommendOnly")
        assert scaling(api)["history"] == []


@pytest.mark.slow
def test_an_autoscaler_of_the_deployment_is_reported(
    api: Api, gateways: ScriptedGateways, prometheus: Prometheus, tmp_path: Path
) -> None:
    """`kubectl autoscale deployment` moves what the operator sets back: the status says who."""
    rival = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "rival"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llava"},
            "maxReplicas": 4,
        },
    }
    assert "created" in api.apply(rival)
    with operated(api, tmp_path, prometheus=prometheus.address):
        start(api, scaled())
        load(api, gateways, requests_running=1, requests_waiting=2, requests_accepted_total=3)

        eventually(
            lambda: active(api).get("reason") == "ReplicasContested", showing=lambda: active(api)
        )
        assert "HorizontalPodAutoscaler rival moves" in active(api)["message"]
        eventually(lambda: scaling(api).get("desired") == 4, showing=lambda: scaling(api))
        assert replicas(api) == 1
