"""Who reaches a server of each backend: Services, ports, probes, and the one page of metrics."""

import json
from pathlib import Path
from typing import Any

from mm_api.contract import STORE_MOUNT
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


def test_publishing_takes_a_service_and_a_policy_of_its_own() -> None:
    objects = _objects(triton={"expose": True})
    service, policy = objects["Service/triton"], objects["NetworkPolicy/triton"]
    servers = objects["Service/server"]["spec"]["selector"]
    assert {port["port"] for port in service["spec"]["ports"]} == TRITONS
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == servers
    assert [_open(policy, port) for port in (8000, 8001)] == [[{"podSelector": {}}]] * 2
    assert [_open(policy, port) for port in (8080, 8002)] == [None, None]
    assert [port["port"] for port in objects["Service/server"]["spec"]["ports"]] == [80]


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

    assert [*made["command"], *made["args"]] == plan.vllm_serve.argv
    assert made["args"][:2] == ["serve", "checkpoint"]
    assert made["workingDir"].endswith(plan.fingerprint)
    assert {one["mountPath"] for one in made["volumeMounts"]} == {
        STORE_MOUNT,
        "/dev/shm",
        "/tmp",
    }
