"""Engine HPA: the cluster's own controller moves replicas by the metric the operator serves."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.absent_kubelet import get
from support.certificates import signed_by_itself
from support.clusters import apply
from support.eventually import eventually
from support.model_namespace import Api
from support.operator_process import OperatorProcess
from support.prometheus import Prometheus
from support.scaled_models import active, load, operated, replicas, scaled, scaling, start
from support.scripted_gateways import ScriptedGateways

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

VERSION = "external.metrics.k8s.io/v1beta1"


def port_of(operator: OperatorProcess) -> int:
    """Return the port of the operator's metrics API."""
    said = re.compile(r"external\.metrics\.k8s\.io on port (\d+)")
    found = eventually(lambda: said.search(operator.log.read_text()))
    assert found is not None
    return int(found[1])


def registered(api: Api, port: int) -> tuple[dict[str, Any], ...]:
    """Return what the chart installs, for an operator that runs beside the API server.

    A Service of type ExternalName stands for the one in front of the operator's pods.
    """
    name = {"name": "metrics-api", "namespace": api.namespace}
    reader = {"name": "metrics-reader"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **reader}
    rule = {
        "apiGroups": ["external.metrics.k8s.io"],
        "resources": ["multimodal_desired_replicas"],
        "verbs": ["get", "list"],
    }
    controller = {"name": "horizontal-pod-autoscaler", "namespace": "kube-system"}
    rbac = "rbac.authorization.k8s.io/v1"
    return (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": name,
            "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
            "spec": {
                "group": "external.metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {**name, "port": port},
            },
        },
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": reader, "rules": [rule]},
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": reader,
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", **controller}],
        },
    )


@pytest.mark.slow  # eleven pods, and a look of the controller every 15 s
def test_one_replica_more_counts_above_ten(
    api: Api, gateways: ScriptedGateways, prometheus: Prometheus, tmp_path: Path
) -> None:
    """From ten replicas on one more is within the controller's usual tolerance: it comes anyway."""
    signed_by_itself(tmp_path, "tls")
    flags = ("--metrics-api-port=0", f"--metrics-api-certificates={tmp_path}")
    try:
        with operated(api, tmp_path, arguments=flags) as operator:
            apply(api.cluster, *registered(api, port_of(operator)))
            model = scaled(prometheus, engine="HPA", maxReplicas=12, customQuery="vector(10)")
            model["spec"]["replicas"] = 10
            start(api, model)
            load(api, gateways, requests_running=0.01, requests_accepted_total=0.1)
            eventually(lambda: scaling(api).get("desired") == 10, showing=lambda: scaling(api))

            patch = json.dumps({"spec": {"autoscaling": {"customQuery": "vector(11)"}}})
            api.kubectl("patch", "mmm", "llava", "--type=merge", "-p", patch)

            eventually(
                lambda: replicas(api) == 11, seconds=90, showing=lambda: get(api, "hpa", "llava")
            )
    finally:
        unregister(api)


def test_replicas_follow_through_the_clusters_controller(
    api: Api, gateways: ScriptedGateways, prometheus: Prometheus, tmp_path: Path
) -> None:
    """The object is made, the metric is served, the controller moves; the operator does not."""
    signed_by_itself(tmp_path, "tls")
    flags = ("--metrics-api-port=0", f"--metrics-api-certificates={tmp_path}")
    try:
        with operated(api, tmp_path, arguments=flags) as operator:
            apply(api.cluster, *registered(api, port_of(operator)))
            start(api, scaled(prometheus, engine="HPA"))
            load(
                api, gateways, requests_running=0.5, requests_waiting=0.3, requests_accepted_total=3
            )

            eventually(lambda: scaling(api).get("desired") == 3, showing=lambda: scaling(api))
            path = f"/apis/{VERSION}/namespaces/{api.namespace}/multimodal_desired_replicas"
            query = "labelSelector=serving.multimodal.dev%2Fmodel%3Dllava"
            answer = json.loads(api.kubectl("get", "--raw", f"{path}?{query}"))
            assert [one["value"] for one in answer["items"]] == ["3"]
            eventually(
                lambda: replicas(api) == 3, seconds=90, showing=lambda: get(api, "hpa", "llava")
            )
            assert active(api)["status"] == "True"
            # The operator sees at its next tick what another controller has moved.
            eventually(lambda: scaling(api).get("history"), showing=lambda: scaling(api))
            move = scaling(api)["history"][0]
            assert (move["toReplicas"], move["reason"].split()[0]) == (3, "SetBy")
    finally:
        unregister(api)


def unregister(api: Api) -> None:
    """Take away what has no namespace."""
    api.kubectl("delete", "apiservice", "v1beta1.external.metrics.k8s.io", "--ignore-not-found")
    for kind in ("clusterrole", "clusterrolebinding"):
        api.kubectl("delete", kind, "metrics-reader", "--ignore-not-found")
