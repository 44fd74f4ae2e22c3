"""Who reaches a server of each backend: Services, ports, probes, and the one page of metrics."""

import json
from pathlib import Path
from typing import Any

from mm_api.contract import FEATURES_MOUNT, STORE_MOUNT, VLLM_IMAGE
from mm_operator.model import PlanSettings
from support.eventually import eventually_async
from support.model_configs import facts_of
from support.models import SETTINGS
from support.pod_targets import discovered
from support.ports import free_ports
from support.prometheus import running_prometheus
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


DISAGGREGATED = {"vision": {"placement": "Disaggregated"}}
MONITORED = PlanSettings(SETTINGS.runtime_image, SETTINGS.builder_version, scrape_annotations=False)
ANNOTATED: dict[str, Any] = {
    "job_name": "kubernetes-pods",
    "relabel_configs": [
        {
            "source_labels": ["__meta_kubernetes_pod_annotation_prometheus_io_scrape"],
            "action": "keep",
            "regex": "true",
        },
        {
            "source_labels": ["__meta_kubernetes_pod_annotation_prometheus_io_path"],
            "action": "replace",
            "target_label": "__metrics_path__",
            "regex": "(.+)",
        },
        {
            "source_labels": ["__address__", "__meta_kubernetes_pod_annotation_prometheus_io_port"],
            "action": "replace",
            "regex": r"([^:]+)(?::\d+)?;(\d+)",
            "replacement": "$1:$2",
            "target_label": "__address__",
        },
        {
            "source_labels": ["__meta_kubernetes_namespace"],
            "action": "replace",
            "target_label": "namespace",
        },
    ],
}
"""The job of prometheus-community's chart for pods with annotations, without its other rules."""


def _pods(settings: PlanSettings, network: str) -> list[dict[str, Any]]:
    """Return a running pod of each kind as the API server would show it."""
    made = children(inspected(DISAGGREGATED, built=True, settings=settings))
    return [
        {
            "metadata": {**template["metadata"], "name": kind, "namespace": "demo"},
            "spec": template["spec"],
            "status": {"phase": "Running", "podIP": f"{network}.{host}"},
        }
        for host, kind in enumerate(("server", "encoder"), start=1)
        for template in [made[f"Deployment/{kind}"]["spec"]["template"]]
    ]


async def test_each_pod_is_scraped_once(tmp_path: Path) -> None:
    pods = [*_pods(SETTINGS, "127.1.0"), *_pods(MONITORED, "127.2.0")]
    found = [target for pod in pods for target in discovered(pod)]
    assert len(found) == 2 * (2 + 2)  # named ports of a server and its gateway, and of an encoder
    file, folder = tmp_path / "targets.json", tmp_path / "prometheus"
    file.write_text(json.dumps(found))
    folder.mkdir()
    job = {**ANNOTATED, "file_sd_configs": [{"files": [str(file)]}]}

    with running_prometheus(folder, {"scrape_configs": [job]}, port=free_ports(1)[0]) as server:
        # Prometheus takes what it finds every five seconds.
        await eventually_async(
            lambda: bool(server.api("targets")["activeTargets"]), seconds=60, pause_seconds=0.2
        )
        pages = [target["scrapeUrl"] for target in server.api("targets")["activeTargets"]]

    assert sorted(pages) == ["http://127.1.0.1:8080/metrics", "http://127.1.0.2:8002/metrics"]


CHANGES = {
    "engine": {"backend": "PyTorch", "maxImagesPerRequest": 1},
    "runtime": {"gpu": {"product": "NVIDIA-H100-80GB-HBM3"}},
    "build": {"trtllmVersion": "1.1.0"},
}


def objects() -> dict[str, dict[str, Any]]:
    return children(inspected(CHANGES, built=True, facts=facts_of("qwen2-vl")))


def test_probes_query_the_metrics_port() -> None:
    pod = objects()["Deployment/server"]["spec"]["template"]["spec"]
    (server,) = (one for one in pod["initContainers"] if one["name"] == "server")
    requested = {
        kind: (server[kind]["httpGet"]["path"], server[kind]["httpGet"]["port"])
        for kind in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert requested == {
        "startupProbe": ("/health/ready", "triton-metrics"),
        "readinessProbe": ("/health/ready", "triton-metrics"),
        "livenessProbe": ("/health/live", "triton-metrics"),
    }
    assert [port["name"] for port in server["ports"]] == ["triton-metrics"]


def test_the_service_leads_to_the_gateway_only() -> None:
    ports = objects()["Service/server"]["spec"]["ports"]
    assert [port["name"] for port in ports] == ["http"]


CHANGES_VLLM = {
    "engine": {"backend": "VLLM"},
    "runtime": {"gpu": {"product": "NVIDIA-H100-80GB-HBM3"}},
}


def pod(**runtime: Any) -> dict[str, Any]:
    changes = {**CHANGES_VLLM, "runtime": {**CHANGES_VLLM["runtime"], **runtime}}
    made = children(inspected(changes, built=True, facts=facts_of("qwen2-5-vl")))
    found: dict[str, Any] = made["Deployment/server"]["spec"]["template"]["spec"]
    return found


def server(**runtime: Any) -> dict[str, Any]:
    (found,) = (one for one in pod(**runtime)["initContainers"] if one["name"] == "server")
    return dict(found)


def test_the_command_is_the_plans() -> None:
    made = server()
    plan = inspected(CHANGES_VLLM, built=True, facts=facts_of("qwen2-5-vl"))[1].serving_plan
    assert plan is not None
    assert plan.vllm_serve is not None

    assert [*made["command"], *made["args"]] == plan.vllm_serve.argv
    assert made["args"][:2] == ["serve", "checkpoint"]
    assert made["workingDir"].endswith(plan.fingerprint)
    assert {one["mountPath"] for one in made["volumeMounts"]} == {
        STORE_MOUNT,
        "/dev/shm",
        "/tmp",
    }


def test_each_container_has_its_image() -> None:
    (gateway,) = pod(image="example.org/vllm:v0.26.0")["containers"]

    assert server()["image"] == VLLM_IMAGE
    assert server(image="example.org/vllm:v0.26.0")["image"] == "example.org/vllm:v0.26.0"
    assert gateway["image"] == SETTINGS.runtime_image


def test_the_server_is_checked_from_inside() -> None:
    """It listens on loopback, where the kubelet does not come: no port, and no check by HTTP."""
    made = server()

    assert "ports" not in made
    assert "readinessProbe" not in made
    for kind in ("startupProbe", "livenessProbe"):
        assert "127.0.0.1:8000/health" in made[kind]["exec"]["command"][-1]
    start = made["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 1800


def test_it_may_write_where_the_pod_lets_it() -> None:
    """Root is read-only and the user has no entry in the image: homes and caches are in /tmp."""
    made = server()
    variables = {one["name"]: one["value"] for one in made["env"]}

    assert made["securityContext"]["readOnlyRootFilesystem"]
    assert made["securityContext"]["runAsNonRoot"]
    for name in ("HOME", "VLLM_CACHE_ROOT", "XDG_CACHE_HOME", "TRITON_CACHE_DIR"):
        assert variables[name].startswith("/tmp")
    assert variables["HF_HUB_OFFLINE"] == "1"


def test_the_gateway_shows_its_metrics() -> None:
    """There is no supervisor's page: the gateway adds the server's own."""
    (gateway,) = pod()["containers"]
    place = gateway["args"].index("--server-metrics")

    assert gateway["args"][place + 1] == "127.0.0.1:8000"


def test_shared_memory_is_planned() -> None:
    """One rank needs little; of two, each has a queue, and NCCL its buffers."""
    (one,) = (item for item in pod()["volumes"] if item["name"] == "shm")

    assert one["emptyDir"] == {"medium": "Memory", "sizeLimit": str(256 << 20)}


def test_features_lie_in_the_pods_own_memory() -> None:
    """Gateway and server alone have it; the encoders' pods run the operator's image on a GPU."""
    vision = {"placement": "Disaggregated", "engine": "Torch"}
    changes = {**CHANGES_VLLM, "vision": vision}
    model, plan = inspected(changes, built=True, facts=facts_of("llava"))
    made = children((model, plan))
    assert plan.serving_plan is not None
    served, encoder = (
        made[f"Deployment/{one}"]["spec"]["template"]["spec"] for one in ("server", "encoder")
    )
    (volume,) = (one for one in served["volumes"] if one["name"] == "features")
    having = {
        one["name"]
        for one in [*served["containers"], *served["initContainers"]]
        if {"name": "features", "mountPath": FEATURES_MOUNT} in one["volumeMounts"]
    }

    assert having == {"gateway", "server"}
    room = plan.serving_plan.features_bytes + (16 << 20)
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": str(room)}
    assert [one["image"] for one in encoder["containers"]] == [SETTINGS.runtime_image]
    assert encoder["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
