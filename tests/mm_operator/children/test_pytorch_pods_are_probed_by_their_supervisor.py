"""Backend PyTorch: trtllm-serve listens on loopback, so nothing else may lead to its port."""

from typing import Any

from support.model_configs import facts_of
from support.staged import children, inspected

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
