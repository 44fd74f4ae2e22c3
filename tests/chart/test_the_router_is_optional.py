"""What `router` of the chart makes: objects, rights, network, route; nothing where it is off."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from mm_api import labels
from mm_api.contract import GATEWAY_PORT, ROUTER_METRICS_PORT, ROUTER_PORT
from mm_api.documents.serving_plan import KeyLimitPlan
from mm_devcluster.cluster import ClusterInfo
from mm_router.key_admission import read_limits
from mm_router.settings import Settings, parse_settings
from support.cases import cases
from support.chart import EXHAUSTIVE, NAMESPACE, refusal, rendered
from support.clusters import kubectl, namespace
from support.eventually import eventually
from support.go_modules import module_folder
from support.golden import Golden
from support.network_policies import Direction, Peer, allows

ON: dict[str, Any] = {"router": {"enabled": True}}
SOME: dict[str, Any] = {**EXHAUSTIVE, "router": {**EXHAUSTIVE["router"], "enabled": True}}
"""Every value, in one of two watched namespaces."""
MODULE = "sigs.k8s.io/gateway-api@v1.4.1"


def objects(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        item
        for item in rendered(values)
        if item["metadata"]["labels"].get(labels.APP_COMPONENT) == "router"
    ]


def one(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    (found,) = (item for item in objects(values) if item["kind"] == kind)
    return found


def test_nothing_is_made_where_it_is_off() -> None:
    assert objects({}) == []
    # The page of runbooks names it.
    others = [item for item in rendered({}) if item["kind"] != "ConfigMap"]
    assert "router" not in yaml.safe_dump(others)


def test_arguments_are_understood() -> None:
    (default,) = one("Deployment", ON)["spec"]["template"]["spec"]["containers"]
    (changed,) = one("Deployment", SOME)["spec"]["template"]["spec"]["containers"]

    assert parse_settings(default["args"]) == Settings()
    assert parse_settings(changed["args"]) == Settings(
        namespaces=("team-a",),
        auth_file=Path("/etc/mm-router-tokens/tokens"),
        key_limits_file=Path("/etc/mm-router/key-limits.json"),
        routers=EXHAUSTIVE["router"]["replicas"],
        max_body_bytes=1_000_000,
        body_memory_bytes=5_000_000_000,
        max_connections=100,
        hold_requests=50,
        hold_bytes=2_500_000_000,
        hold_seconds=60.0,
        drain_seconds=30,
        log_level="debug",
    )


def test_rights_are_two_kinds_to_read() -> None:
    """Models and EndpointSlices, in the namespaces that are routed to; nothing is written."""
    there = one("Role", SOME)
    for rules in (one("ClusterRole", ON)["rules"], there["rules"]):
        assert {tuple(rule["resources"]) for rule in rules} == {
            ("multimodalmodels",),
            ("endpointslices",),
        }
        assert all(rule["verbs"] == ["list", "watch"] for rule in rules)
    assert there["metadata"]["namespace"] == "team-a"
    account = one("Deployment", SOME)["spec"]["template"]["spec"]["serviceAccountName"]
    assert one("RoleBinding", SOME)["subjects"] == [
        {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    ]


def pod(namespace: str, component: str) -> Peer:
    marks = {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE, labels.APP_COMPONENT: component}
    return Peer(
        labels=marks,
        namespace=namespace,
        namespace_labels={"kubernetes.io/metadata.name": namespace},
    )


def team(name: str) -> Peer:
    return Peer(labels={"app": "x"}, namespace=name, namespace_labels={"team": name})


API_SERVER = Peer(address="192.0.2.1")
SERVER = labels.Component.SERVER


@cases(
    "values direction other port expected",
    {
        "clients": (ON, "ingress", team("any"), "http", True),
        "named-clients": (SOME, "ingress", team("clients"), "http", True),
        "other-clients": (SOME, "ingress", team("any"), "http", False),
        "metrics": (ON, "ingress", team("any"), "metrics", True),
        "metrics-by-named": (SOME, "ingress", team("monitoring"), "metrics", True),
        "metrics-by-clients": (SOME, "ingress", team("clients"), "metrics", False),
        "api-server": (ON, "egress", API_SERVER, 6443, True),
        "api-server-there": (SOME, "egress", API_SERVER, 16443, True),
        "gateway": (ON, "egress", pod("team-c", SERVER), GATEWAY_PORT, True),
        "gateway-there": (SOME, "egress", pod("team-a", SERVER), GATEWAY_PORT, True),
        "elsewhere": (SOME, "egress", pod("team-b", SERVER), GATEWAY_PORT, False),
        "triton": (ON, "egress", pod("team-a", SERVER), 8001, False),
        "encoder": (ON, "egress", pod("team-a", "encoder"), GATEWAY_PORT, False),
        "other-pods": (ON, "egress", team("any"), GATEWAY_PORT, False),
        "metadata": (ON, "egress", Peer(address="169.254.169.254"), 80, False),
    },
)
def test_the_router_reaches_and_is_reached(
    values: dict[str, Any], direction: Direction, other: Peer, *, port: int | str, expected: bool
) -> None:
    """Clients come in; API server and gateways of models are all that it reaches."""
    policy = one("NetworkPolicy", values)

    assert allows([policy], _router(values), direction, other, port=port) is expected


@pytest.mark.parametrize("values", [ON, SOME], ids=["none", "some"])
def test_the_operator_reads_what_waits(values: dict[str, Any]) -> None:
    name = f"{one('Deployment', values)['metadata']['name']}".removesuffix("-router")
    found = {
        kind: next(
            item
            for item in rendered(values)
            if item["kind"] == kind and item["metadata"]["name"] in {name, f"{name}-lease"}
        )
        for kind in ("Deployment", "NetworkPolicy", "Role")
    }
    marks = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    operator, router = Peer(labels=marks, namespace=NAMESPACE), _router(values)
    own = [one("NetworkPolicy", values)]

    assert allows(own, router, "ingress", operator, port="metrics")
    assert allows([found["NetworkPolicy"]], operator, "egress", router, port=ROUTER_METRICS_PORT)
    (rule,) = (one for one in found["Role"]["rules"] if "endpointslices" in one["resources"])
    assert rule["verbs"] == ["list", "watch"]


def _router(values: dict[str, Any]) -> Peer:
    marks = one("Deployment", values)["spec"]["template"]["metadata"]["labels"]
    return Peer(labels=marks, namespace=NAMESPACE)


def test_tokens_and_limits_reach_the_program() -> None:
    template = one("Deployment", SOME)["spec"]["template"]["spec"]
    (container,) = template["containers"]
    (limit,) = read_limits(one("ConfigMap", SOME)["data"]["key-limits.json"].encode())
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}

    assert limit == KeyLimitPlan(name="alice", requests_per_minute=61, concurrent_requests=7)
    assert (mounts["tokens"], mounts["configuration"]) == (
        "/etc/mm-router-tokens",
        "/etc/mm-router",
    )
    assert template["volumes"][-1] == {
        "name": "tokens",
        "secret": {"secretName": "clients", "items": [{"key": "tokens", "path": "tokens"}]},
    }


def test_ports_are_those_of_the_program() -> None:
    (container,) = one("Deployment", SOME)["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    (service,) = one("Service", SOME)["spec"]["ports"]
    (rule,) = one("HTTPRoute", SOME)["spec"]["rules"]

    assert ports == {
        "http": ROUTER_PORT,
        "metrics": ROUTER_METRICS_PORT,
    }
    assert service["targetPort"] == "http"
    assert rule["backendRefs"] == [
        {"name": one("Service", SOME)["metadata"]["name"], "port": service["port"]}
    ]


WRONG: dict[str, dict[str, Any]] = {
    "no-parent": {"httpRoute": {"enabled": True}},
    "no-replica": {"replicas": 0},
    "service": {"service": {"type": "ExternalName"}},
    "duration": {"httpRoute": {"requestTimeout": "1d"}},
    "typo": {"replica": 2},
    "no-tokens": {"keyLimits": [{"name": "a"}]},
    "key-twice": {"authSecretRef": {"name": "x"}, "keyLimits": [{"name": "a"}] * 2},
    "tokens": {"keyLimits": [{"name": "a", "tokensPerMinute": 9}]},
    "weight-of-key": {"keyLimits": [{"name": "a", "weight": 2}]},
    "bodies": {"maxBodyBytes": 2**29},
}


def test_wrong_values_are_refused(golden: Golden) -> None:
    found = {
        name: refusal({"router": {"enabled": True, **router}}) for name, router in WRONG.items()
    }
    golden.check_yaml("wrong-router.yaml", found)


@pytest.mark.cluster
def test_gateway_apis_own_definition_takes_the_route(control_plane: ClusterInfo) -> None:
    """Strict validation accepts the route; nothing is dropped silently."""
    folder = module_folder("/", MODULE) / "config" / "crd" / "standard"
    file = folder / "gateway.networking.k8s.io_httproutes.yaml"
    kubectl(control_plane, "apply", "--server-side", "-f", str(file))
    with namespace(control_plane, "routes"):
        item = one("HTTPRoute", SOME)
        item["metadata"]["namespace"] = "routes"
        text = yaml.safe_dump(item)

        def taken() -> bool:
            kubectl(control_plane, "apply", "--validate=strict", "-f", "-", stdin=text)
            return True

        # Discovery learns of a new kind a moment after it is established.
        eventually(taken, seconds=60)
