"""Pods and builds claim devices of a DeviceClass instead of requesting an extended resource."""

from dataclasses import replace
from typing import Any

from mm_api import labels
from mm_operator import names
from mm_operator.children.all import build, unwanted
from mm_operator.model import (
    ConfigState,
    DeploymentState,
    GpuNode,
    JobPhase,
    JobState,
    Plan,
    PodState,
    Ref,
    Snapshot,
)
from mm_operator.plan import decide
from support.cases import cases
from support.gpu_nodes import H100, L4, node
from support.model_configs import facts_of
from support.model_documents import merged
from support.models import EPOCH
from support.staged import children, inspected

CLASS = "gpu.nvidia.com"
SELECTOR = "device.attributes['gpu.nvidia.com'].index < 4"
SPEC: dict[str, Any] = {
    "engine": {"backend": "TensorRT", "parallelism": {"tensor": 2}},
    "build": {"trtllmVersion": "0.20.0"},
    "runtime": {"gpu": {"deviceClassName": CLASS, "deviceSelectors": [SELECTOR]}},
}
TEMPLATE = "ResourceClaimTemplate"


def stage(changes: dict[str, Any] | None = None, **fields: Any) -> tuple[Snapshot, Plan]:
    given: dict[str, Any] = {"gpu_nodes": (node("a", H100),), "facts": facts_of("llava"), **fields}
    return inspected(merged(SPEC, changes or {}), **given)


def request(template: dict[str, Any]) -> dict[str, Any]:
    [one] = template["spec"]["spec"]["devices"]["requests"]
    assert one["name"] == "gpu"
    return dict(one["exactly"])


@cases(
    "maker made", {"this-model": ("uid-of-llava", True), "another-model": ("uid-of-other", False)}
)
def test_a_build_that_runs_keeps_its_template(maker: str, *, made: bool) -> None:
    """Another pod of the Job needs it; the model whose Job it is makes it again."""
    snapshot, plan = stage()
    job = JobState(
        plan.build.job,
        "uid-of-job",
        JobPhase.RUNNING,
        EPOCH,
        annotations={labels.MADE_BY: maker, labels.MADE_FOR: "llava"},
    )
    engine = replace(snapshot.observed.engines[plan.engine_config], jobs=(job,))
    observed = replace(snapshot.observed, engines={plan.engine_config: engine})
    snapshot = replace(snapshot, observed=observed)
    kinds = {one["kind"] for one in build(snapshot, decide(snapshot))}
    assert (TEMPLATE in kinds) == made


def test_templates_of_a_former_revision_stay_with_its_pods() -> None:
    """They cannot be changed: another claim is another template, and old pods may come again."""
    snapshot, plan = stage({"rollout": {"maxSurge": 1}}, built=True)
    old = ConfigState(
        names.serving_config("llava", "old"),
        "uid-of-old",
        data={"resource-claim-templates": "llava-gpu-old,llava-gpu-encoders"},
    )
    refs = frozenset(Ref(TEMPLATE, f"llava-gpu-{name}") for name in ("old", "encoders", "older"))
    live = DeploymentState("llava", "uid", 1, 1, 1, 2, 1, 1, 1, serving_hash="old")
    pods = (PodState(serving_hash="old", phase="Running", ready=True),)
    configs = {**snapshot.observed.configs, old.name: old}
    observed = replace(snapshot.observed, configs=configs, deployment=live, pods=pods, refs=refs)
    snapshot = replace(snapshot, observed=observed)
    plan = decide(snapshot)
    assert unwanted(snapshot, plan, build(snapshot, plan)) == (Ref(TEMPLATE, "llava-gpu-older"),)


def test_another_claim_is_another_build_job() -> None:
    other = {"runtime": {"gpu": {"deviceSelectors": ["true"]}}}
    terms = [
        children(stage(changes))["Job/build"]["metadata"]["annotations"][labels.TERMS_HASH]
        for changes in ({}, other)
    ]
    assert terms[0] != terms[1]


@cases(
    "nodes product",
    {
        "shared": ((node("a", f"{H100}-SHARED", **{"nvidia.com/gpu.replicas": "4"}),), H100),
        "cut-alike": ((node("a", f"{H100}-MIG-1g.10gb"), node("b", L4)), L4),
    },
)
def test_devices_are_entire_gpus(nodes: tuple[GpuNode, ...], product: str) -> None:
    """However the device plugin shares them; GPUs that are all cut into slices are none."""
    spec = {"engine": {"parallelism": {"tensor": 1}, "maxBatchSize": 1, "maxInputLen": 2000}}
    _, plan = stage(spec, gpu_nodes=nodes, refused=None)
    assert plan.engine.gpu.product == product
    assert plan.engine.gpu.memory_bytes > 79 << 30


def test_devices_of_another_class_are_as_written() -> None:
    """Labels of nodes describe other devices; a claim names a product only where the spec does."""
    slices = {"deviceClassName": "mig.nvidia.com", "memory": "40Gi", "computeCapability": "9.0"}
    made = stage({"runtime": {"gpu": slices}}, built=True)
    engine = made[1].engine
    assert engine.gpu.memory_bytes == 40 << 30
    selectors = request(children(made)[f"{TEMPLATE}/server"])["selectors"]
    assert [one["cel"]["expression"] for one in selectors] == [SELECTOR]


def test_without_the_api_it_is_said() -> None:
    """Nothing is built for claims that cannot be made; models without them do not notice."""
    why = "the API server is older than Kubernetes 1.34"
    _, plan = stage(claims_missing=why, refused=True)
    assert (plan.problem.reason, plan.problem.path) == (
        "NotSupported",
        "spec.runtime.gpu.deviceClassName",
    )
    assert why in plan.problem.message
    plain = {"runtime": {"gpu": {"deviceClassName": None, "deviceSelectors": []}}}
    _, plan = stage(plain, claims_missing=why)
    assert plan.problem is None
