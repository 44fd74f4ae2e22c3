"""Serving pods send traces where the operator's settings say so; otherwise they know of none."""

from dataclasses import replace
from typing import Any

import pytest

from mm_operator.children.all import build
from mm_operator.model import TracingSettings
from support.cases import cases
from support.model_configs import facts_of
from support.staged import inspected, planned

TRACING = TracingSettings(endpoint="http://collector:4318/", sampling_ratio=0.25)
GPU = {"gpu": {"product": "NVIDIA-H100-80GB-HBM3"}}
VLLM: dict[str, Any] = {"engine": {"backend": "VLLM"}, "runtime": GPU}
OWN = {**VLLM, "engine": {"backend": "VLLM", "extraArgs": ["--otlp-traces-endpoint", "http://x"]}}


def containers(changes: dict[str, Any], tracing: TracingSettings | None) -> dict[str, Any]:
    """Return the containers of all serving pods by name."""
    facts = facts_of("qwen2-5-vl") if changes.get("engine") else None
    snapshot, _ = inspected(changes, built=True, **({"facts": facts} if facts else {}))
    traced = replace(snapshot, settings=replace(snapshot.settings, tracing=tracing))
    made = build(*planned(traced))
    pods = [one["spec"]["template"]["spec"] for one in made if one["kind"] == "Deployment"]
    every = [one for pod in pods for one in (*pod.get("initContainers", ()), *pod["containers"])]
    return {one["name"]: one for one in every}


def variables(container: dict[str, Any]) -> dict[str, str]:
    found = {one["name"]: one.get("value", "") for one in container["env"]}
    return {name: value for name, value in found.items() if name.startswith("OTEL_")}


@pytest.mark.parametrize("changes", [{"vision": {"placement": "Disaggregated"}}, VLLM])
def test_each_process_sends_its_own_spans(changes: dict[str, Any]) -> None:
    """The gateway decides for clients that have not; servers record what they are sent."""
    traced = containers(changes, TRACING)
    for name in traced.keys() & {"gateway", "server", "encoder"}:
        found = variables(traced[name])
        assert found["OTEL_EXPORTER_OTLP_ENDPOINT"] == TRACING.endpoint
        assert found["OTEL_SERVICE_NAME"] == f"llava-{name}"
        assert (
            "k8s.namespace.name=demo,k8s.pod.name=$(POD_NAME)" in found["OTEL_RESOURCE_ATTRIBUTES"]
        )
        samplers = {"gateway": ("parentbased_traceidratio", "0.25")}
        assert (found["OTEL_TRACES_SAMPLER"], found.get("OTEL_TRACES_SAMPLER_ARG")) == samplers.get(
            name, ("parentbased_always_off", None)
        )
    assert all(variables(one) == {} for one in containers(changes, None).values())


@cases("changes added", {"plans": (VLLM, ["http://collector:4318/v1/traces"]), "specs": (OWN, [])})
def test_vllm_is_told_where_unless_the_spec_says_it(
    changes: dict[str, Any], added: list[str]
) -> None:
    arguments = containers(changes, TRACING)["server"]["args"]
    before = containers(changes, None)["server"]["args"]
    assert arguments == [*before, *(["--otlp-traces-endpoint", *added] if added else [])]


def test_a_change_of_it_is_a_revision() -> None:
    snapshot, _ = inspected({}, built=True)
    revisions = {
        planned(replace(snapshot, settings=replace(snapshot.settings, tracing=one)))[
            1
        ].rollout.serving_hash
        for one in (None, TRACING, TRACING.model_copy(update={"sampling_ratio": 0.5}))
    }
    assert len(revisions) == 3
