"""Triton listens for its own pod only, unless the spec publishes it; encoders serve their model."""

from typing import Any

from support.staged import children, inspected

Object = dict[str, Any]

TRITONS = {8000, 8001}


def _objects(**runtime: object) -> dict[str, Object]:
    return children(inspected({"runtime": runtime}, built=True))


def _server(objects: dict[str, Object]) -> Object:
    pod = objects["Deployment/server"]["spec"]["template"]["spec"]
    server: Object = next(one for one in pod["initContainers"] if one["name"] == "server")
    return server


def _given(container: Object) -> dict[str, str]:
    words = container["args"][1:]
    return dict(zip(words[::2], words[1::2], strict=True))


def _open(policy: Object, port: int) -> list[Object] | None:
    rules = [one for one in policy["spec"]["ingress"] if port in {p["port"] for p in one["ports"]}]
    assert len(rules) == 1
    peers: list[Object] | None = rules[0].get("from")
    return peers


def test_a_model_has_port_80_and_nothing_else() -> None:
    """No Service, no container port and no address but loopback leads to Triton."""
    objects = _objects()
    server = _server(objects)
    assert [port["port"] for port in objects["Service/server"]["spec"]["ports"]] == [80]
    assert not TRITONS & {port["containerPort"] for port in server["ports"]}
    assert {_given(server)[name] for name in ("--address", "--grpc-address")} == {"127.0.0.1"}
    assert _given(server)["--page-address"] == "0.0.0.0"  # noqa: S104 (compared, not bound)
    assert not [name for name in objects if name.startswith("NetworkPolicy")]


def test_probes_query_the_page_of_the_supervisor() -> None:
    """The kubelet comes from outside, where Triton does not listen."""
    server = _server(_objects())
    requested = {kind: server[kind]["httpGet"]["port"] for kind in server if kind.endswith("Probe")}
    assert requested == dict.fromkeys(
        ("startupProbe", "livenessProbe", "readinessProbe"), "triton-metrics"
    )


def test_publishing_takes_a_service_and_a_policy_of_its_own() -> None:
    objects = _objects(triton={"expose": True})
    service, policy = objects["Service/triton"], objects["NetworkPolicy/triton"]
    servers = objects["Service/server"]["spec"]["selector"]
    assert {port["port"] for port in service["spec"]["ports"]} == TRITONS
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == servers
    assert [_open(policy, port) for port in (8000, 8001)] == [[{"podSelector": {}}]] * 2
    assert [_open(policy, port) for port in (8080, 8002)] == [None, None]
    assert [port["port"] for port in objects["Service/server"]["spec"]["ports"]] == [80]


def test_a_published_triton_listens_everywhere() -> None:
    server = _server(_objects(triton={"expose": True}))
    assert {_given(server)[name] for name in ("--address", "--grpc-address")} == {"0.0.0.0"}  # noqa: S104
    assert {"triton-http", "triton-grpc"} < {port["name"] for port in server["ports"]}


def test_who_may_connect_restarts_no_pod() -> None:
    peers = [{"podSelector": {"matchLabels": {"app": "client"}}}]
    revisions = {
        _objects(triton={"expose": True, "allowFrom": allowed})["Deployment/server"]["spec"][
            "template"
        ]["metadata"]["annotations"]["serving.multimodal.dev/serving-hash"]
        for allowed in ([], peers)
    }
    assert len(revisions) == 1


def test_encoders_serve_the_servers_of_their_model() -> None:
    """GRPC is open to the model's own pods, shows nothing without the key, and HTTP to no one."""
    objects = children(inspected({"vision": {"placement": "Disaggregated"}}, built=True))
    pod = objects["Deployment/encoder"]["spec"]["template"]
    (encoder,) = pod["spec"]["containers"]
    policy = objects["NetworkPolicy/encoder"]
    servers = objects["Deployment/server"]["spec"]["selector"]["matchLabels"]
    assert _open(policy, 8001) == [{"podSelector": {"matchLabels": servers}}]
    assert _open(policy, 8002) is None
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert (_given(encoder)["--address"], {port["name"] for port in encoder["ports"]}) == (
        "127.0.0.1",
        {"triton-grpc", "http"},
    )
