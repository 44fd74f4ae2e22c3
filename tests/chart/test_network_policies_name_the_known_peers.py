"""Whom the operator and the Jobs may reach, and who may reach them, by the chart's policies."""

from typing import Any

from mm_api import labels
from mm_api.contract import METRICS_PORT
from support.cases import cases
from support.chart import NAMESPACE, of_kind
from support.network_policies import Direction, Peer, allows


def operator(values: dict[str, Any]) -> Peer:
    (deployment,) = of_kind("Deployment", values)
    marks = deployment["spec"]["template"]["metadata"]["labels"]
    return Peer(labels=marks, namespace=NAMESPACE)


def model_pod(component: str = labels.Component.SERVER) -> Peer:
    marks = {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE, labels.APP_COMPONENT: component}
    return Peer(labels=marks, namespace="team-a", namespace_labels={"team": "a"})


STRANGER = Peer(labels={"app": "x"}, namespace="team-b", namespace_labels={"team": "b"})
MONITORING = Peer(
    labels={"app": "prometheus"}, namespace="monitoring", namespace_labels={"team": "monitoring"}
)
API_SERVER = Peer(address="192.0.2.1")
PROMETHEUS = {"prometheus": {"addresses": ["http://p.example:9091/x", "https://q.example"]}}
ELSEWHERE = {"networkPolicy": {"apiServerPorts": [6443]}}
"""443, which is Prometheus' port by https too, is not the API server's then."""
PLAIN = {**ELSEWHERE, "prometheus": {"addresses": ["http://p.example"]}}
GUARDED = {**ELSEWHERE, "prometheus": {"addresses": ["https://p.example"]}}
PROXIED = {"networkPolicy": {"egress": [{"ports": [{"port": 3128}]}]}}
SCRAPED = {
    "networkPolicy": {
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]
    }
}


@cases(
    "values direction other port protocol expected",
    {
        "metrics": ({}, "ingress", STRANGER, "http", "TCP", True),
        "metrics-by-named": (SCRAPED, "ingress", MONITORING, "http", "TCP", True),
        "metrics-by-other": (SCRAPED, "ingress", STRANGER, "http", "TCP", False),
        "other-port": ({}, "ingress", STRANGER, 22, "TCP", False),
        "names": ({}, "egress", STRANGER, 53, "UDP", True),
        "long-names": ({}, "egress", STRANGER, 53, "TCP", True),
        "names-on-openshift": ({}, "egress", STRANGER, 5353, "UDP", True),
        "api-server": ({}, "egress", API_SERVER, 6443, "TCP", True),
        "server-state": ({}, "egress", model_pod(), METRICS_PORT, "TCP", True),
        "servers-grpc": ({}, "egress", model_pod(), 8001, "TCP", False),
        "strange-pod": ({}, "egress", STRANGER, METRICS_PORT, "TCP", False),
        "prometheus-elsewhere": ({}, "egress", STRANGER, 9090, "TCP", False),
        "own-prometheus": (PROMETHEUS, "egress", MONITORING, 9091, "TCP", True),
        "prometheus-by-http": (PLAIN, "egress", MONITORING, 80, "TCP", True),
        "by-http-only": (PLAIN, "egress", MONITORING, 443, "TCP", False),
        "prometheus-by-https": (GUARDED, "egress", MONITORING, 443, "TCP", True),
        "by-https-only": (GUARDED, "egress", MONITORING, 80, "TCP", False),
        "a-proxy-that-is-named": (PROXIED, "egress", STRANGER, 3128, "TCP", True),
        "a-proxy-that-is-not": ({}, "egress", STRANGER, 3128, "TCP", False),
        "metadata": ({}, "egress", Peer(address="169.254.169.254"), 80, "TCP", False),
        "database": ({}, "egress", STRANGER, 5432, "TCP", False),
    },
)
def test_the_operator_reaches_and_is_reached(
    values: dict[str, Any],
    direction: Direction,
    other: Peer,
    port: int | str,
    protocol: str,
    *,
    expected: bool,
) -> None:
    """Metrics and the metrics API come in; names, API server, Prometheus, servers' state go out."""
    policies = of_kind("NetworkPolicy", values)

    assert (
        allows(policies, operator(values), direction, other, port=port, protocol=protocol)
        is expected
    )


@cases(
    "component expected",
    {
        "build": (labels.Component.BUILD, False),
        "inspect": (labels.Component.INSPECT, False),
        "sweep": (labels.Component.SWEEP, False),
        "server": (labels.Component.SERVER, True),
    },
)
def test_no_pod_reaches_a_job(component: str, *, expected: bool) -> None:
    """Where the namespaces are known, their Jobs listen to no one; serving pods are not meant."""
    policies = of_kind("NetworkPolicy", {"watchNamespaces": ["team-a"]})

    assert allows(policies, model_pod(component), "ingress", STRANGER, port=8000) is expected
    assert allows(policies, model_pod(component), "egress", API_SERVER, port=443)
