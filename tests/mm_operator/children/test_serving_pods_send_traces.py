"""Serving pods send traces where the operator's settings say so; otherwise they know of none."""

from dataclasses import replace
from typing import Any

from mm_operator.children.all import build
from mm_operator.model import TracingSettings
from support.cases import cases
from support.model_configs import facts_of
from support.staged import inspected, planned

TRACING = TracingSettings(endpoint="http://collector:4318/", sampling_ratio=0.25)
GPU = {"gpu": {"product": "NVIDIA-H100-80GB-HBM3"}}


def vllm(*own: str) -> dict[str, Any]:
    return {"engine": {"backend": "VLLM", "extraArgs": list(own)}, "runtime": GPU}


def containers(changes: dict[str, Any], tracing: TracingSettings | None) -> dict[str, Any]:
    """Return the containers of all serving pods by name."""
    facts = {"facts": facts_of("qwen2-5-vl")} if "engine" in changes else {}
    snapshot, _ = inspected(changes, built=True, **facts)
    settings = replace(snapshot.settings, tracing=tracing)
    made = build(*planned(replace(snapshot, settings=settings)))
    pods = [one["spec"]["template"]["spec"] for one in made if one["kind"] == "Deployment"]
    every = [one for pod in pods for one in (*pod.get("initContainers", ()), *pod["containers"])]
    return {one["name"]: one for one in every}


def test_each_process_sends_its_own_spans() -> None:
    """The gateway decides for clients that have not; servers record what they are sent."""
    disaggregated = {"vision": {"placement": "Disaggregated"}}
    samplers = {"gateway": "parentbased_traceidratio"}
    for name, container in containers(disaggregated, TRACING).items():
        found = {one["name"]: one.get("value") for one in container["env"]}
        assert found["OTEL_EXPORTER_OTLP_ENDPOINT"] == TRACING.endpoint
        assert found["OTEL_SERVICE_NAME"] == f"llava-{name}"
        assert "k8s.pod.name=$(POD_NAME)," in str(found["OTEL_RESOURCE_ATTRIBUTES"])
        assert found["OTEL_TRACES_SAMPLER"] == samplers.get(name, "parentbased_always_off")
    assert "OTEL" not in str(containers(disaggregated, None))


OWN = ("--otlp-traces-endpoint", "http://x")


@cases(
    "own added", {"plans": ((), (OWN[0], "http://collector:4318/v1/traces")), "specs": (OWN, ())}
)
def test_vllm_gets_the_address(own: tuple[str, ...], added: tuple[str, ...]) -> None:
    """Unless the spec says it."""
    before = containers(vllm(*own), None)["server"]["args"]
    assert containers(vllm(*own), TRACING)["server"]["args"] == [*before, *added]
