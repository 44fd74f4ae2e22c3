"""Backends that need a GPU: planned to the last byte, shown, and built on the GPU of the plan."""

import json
from dataclasses import replace
from typing import Any

import pytest

from mm_api.conditions import Reason
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.serving_plan import ServingPlan
from mm_api.documents.trtllm_build import GpuModel
from mm_api.families import FAMILIES, SERVED
from mm_api.v1alpha1 import MultimodalModelStatus
from mm_api.v1alpha1.quantity import bytes_of
from mm_api.vllm_classes import vllm_since
from mm_operator.children.all import build
from mm_operator.model import Outcome, Plan, Snapshot, Step
from mm_operator.plan.engine_plan import plan_for
from mm_operator.plan.records import GPU_KEY
from mm_operator.status.derive import derive
from support.cases import cases
from support.golden import Golden
from support.gpu_nodes import H100, L4, node
from support.model_configs import (
    ON_TRITON,
    WITHOUT_ENGINES,
    facts_of,
    inputs_of,
    planned,
    planned_engine,
)
from support.models import SETTINGS, snapshot_of, spec_of
from support.staged import inspected

TRTLLM = {"engine": {"backend": "TensorRT"}, "build": {"trtllmVersion": "0.20.0"}}
PYTORCH = {"engine": {"backend": "PyTorch"}, "build": {"trtllmVersion": "1.0.0"}}
NODES = (node("a", H100),)
TWO_RANKS = {"engine": {"backend": "TensorRT", "parallelism": {"tensor": 2}}}
JUNE, AUGUST = (f"tritonserver:25.0{month}-trtllm-python-py3" for month in (6, 8))


def reported(
    family: str, changes: dict[str, Any] | None = None, **fields: Any
) -> tuple[dict[str, Any], list[str]]:
    spec = {"model": {"allowPickle": True}, **TRTLLM, **(changes or {})}
    fields.setdefault("gpu_nodes", NODES)
    snapshot, plan = inspected(spec, facts=facts_of(family), **fields)
    status = derive(snapshot, plan, Outcome())
    MultimodalModelStatus.model_validate(status)
    return status, [child["kind"] for child in build(snapshot, plan)]


def recorded_gpu(stage: tuple[Snapshot, Plan]) -> GpuModel | None:
    found = [one["data"] for one in build(*stage) if GPU_KEY in one.get("data", {})]
    return GpuModel.from_json(found[0][GPU_KEY]) if found else None


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(dict(one) for one in status["conditions"] if one["type"] == kind)


@pytest.mark.parametrize("family", ON_TRITON)
def test_every_family_is_built_from_its_plan(family: str) -> None:
    """Planned is True with the verdict; a Job on the planned GPU reads the commands of `mmctl`."""
    snapshot, plan = inspected(
        {"model": {"allowPickle": True}, **TRTLLM}, facts=facts_of(family), gpu_nodes=NODES
    )
    status = derive(snapshot, plan, Outcome())
    made = {child["kind"]: child for child in build(snapshot, plan) if child["kind"] != "ConfigMap"}
    pod = made["Job"]["spec"]["template"]["spec"]
    engine = next(
        child for child in build(snapshot, plan) if child["metadata"]["name"] == plan.engine_config
    )

    assert condition(status, "Planned")["status"] == "True"
    assert "GiB are needed on the fullest GPU" in condition(status, "Planned")["message"]
    assert condition(status, "EngineBuilt")["reason"] == Reason.BUILDING
    assert BuildPlan.from_json(engine["data"]["plan.json"]) == planned(family).build_plan
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": H100}
    assert pod["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "Deployment" not in made


@pytest.mark.parametrize("family", WITHOUT_ENGINES)
def test_a_family_without_engines_is_refused_by_name(family: str) -> None:
    problem = planned(family, {"backend": "TensorRT"}, version="0.20.0").errors[0]
    record = FAMILIES[family]
    served = (
        "PyTorch" if record.pytorch else "",
        "Reference" if family in SERVED else "",
        "VLLM" if vllm_since(record.architectures) else "",
    )
    ways = " or ".join(filter(None, served))

    assert (problem.code, problem.path) == ("BackendFamily", "spec.engine.backend")
    assert problem.message.endswith(f"no engines of {family}: use backend {ways}")


@pytest.mark.parametrize("tensor", [1, 2])
def test_a_built_engine_is_served_on_its_gpus(tensor: int) -> None:
    changes = {**TRTLLM, "engine": {"backend": "TensorRT", "parallelism": {"tensor": tensor}}}
    snapshot, plan = inspected(changes, built=True, facts=facts_of("llava"), gpu_nodes=NODES)
    made = {child["kind"]: child for child in build(snapshot, plan)}
    pod = made["Deployment"]["spec"]["template"]["spec"]
    server = next(one for one in pod["initContainers"] if one["name"] == "server")

    assert condition(derive(snapshot, plan, Outcome()), "EngineBuilt")["status"] == "True"
    assert server["resources"]["limits"]["nvidia.com/gpu"] == str(tensor)
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": H100}
    assert "Job" not in made


def test_a_build_sets_aside_what_the_converter_reads() -> None:
    """The Job requests host memory for the checkpoint beside the tools' own."""
    facts = facts_of("llava")
    unchecked = {**TRTLLM, "build": {**TRTLLM["build"], "evaluation": "Off"}}
    snapshot, plan = inspected(unchecked, facts=facts, gpu_nodes=NODES)
    made = {child["kind"]: child for child in build(snapshot, plan)}
    container = made["Job"]["spec"]["template"]["spec"]["containers"][0]
    requested = bytes_of(container["resources"]["requests"]["memory"])

    assert 0 <= requested - facts.weight_bytes - 2**30 < 2**20


def test_a_checkpoint_is_staged_for_pytorch_without_a_gpu() -> None:
    """TensorRT-LLM on PyTorch: numbers, a warning about the estimate, and a Job on any node."""
    snapshot, plan = inspected(PYTORCH, facts=facts_of("qwen2-vl"), gpu_nodes=NODES)
    status = derive(snapshot, plan, Outcome())
    made = {child["kind"]: child for child in build(snapshot, plan)}
    pod = made["Job"]["spec"]["template"]["spec"]

    assert condition(status, "Planned")["status"] == "True"
    assert any("reserves no prompt table" in warning for warning in status["plan"]["warnings"])
    assert "nodeSelector" not in pod
    assert "limits" not in pod["containers"][0]["resources"]
    assert "Deployment" not in made


def test_a_staged_checkpoint_is_served_on_its_gpu() -> None:
    """The pod has a GPU of the product, and the command of `mmctl plan` in its serving plan."""
    snapshot, plan = inspected(PYTORCH, built=True, facts=facts_of("qwen2-vl"), gpu_nodes=NODES)
    built = condition(derive(snapshot, plan, Outcome()), "EngineBuilt")
    made = build(snapshot, plan)
    pod = next(one for one in made if one["kind"] == "Deployment")["spec"]["template"]["spec"]
    server = next(one for one in pod["initContainers"] if one["name"] == "server")
    (reported_to_pods,) = (
        ServingPlan.from_json(one["data"]["serving.json"])
        for one in made
        if "serving.json" in one.get("data", {})
    )

    assert (built["status"], built["message"]) == ("True", "the checkpoint is staged")
    assert server["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": H100}
    assert reported_to_pods.trtllm_serve == plan.serving_plan.trtllm_serve
    assert reported_to_pods.trtllm_serve is not None


@pytest.mark.parametrize("family", ON_TRITON)
def test_operator_and_mmctl_plan_the_same(family: str) -> None:
    spec = spec_of({"model": {"allowPickle": True}, **TRTLLM})
    mine = plan_for(snapshot_of(gpu_nodes=NODES, name=family), spec, facts_of(family))

    assert mine.plan == planned_engine(inputs_of(family))
    assert BuildPlan.from_json(mine.plan.build_plan.to_json()) == planned(family).build_plan


def test_status_has_the_numbers() -> None:
    status, _ = reported("llava", {"engine": {"backend": "TensorRT", "parallelism": {"tensor": 2}}})
    plan = planned("llava", {"parallelism": {"tensor": 2}})
    shown = status["plan"]

    assert shown["gpu"] == json.loads(plan.model_dump_json(by_alias=True))["gpu"]
    assert [one["totalBytes"] for one in shown["gpuMemory"]] == [
        gpu.total_bytes for gpu in plan.memory.per_gpu
    ]
    assert (
        shown["kvCacheFreeGpuMemoryFraction"],
        shown["pool"]["bytes"],
        shown["verdict"],
        shown["trtllmVersion"],
    ) == (
        plan.memory.kv_cache_free_gpu_memory_fraction,
        plan.pool.bytes,
        plan.fit.verdict,
        "0.20.0",
    )


def test_too_big_is_reported_with_what_would_fit() -> None:
    small = node("a", L4, **{"nvidia.com/gpu.memory": "16000"})
    status, kinds = reported("llava", gpu_nodes=(small,), refused=True)
    verdict = condition(status, "Planned")

    assert (verdict["status"], verdict["reason"]) == ("False", "DoesNotFit")
    assert "GiB are missing on GPU 0" in verdict["message"]
    assert "it would fit with spec.engine." in verdict["message"]
    assert (status["plan"]["fits"], status["plan"]["shortBytes"] > 0) == (False, True)
    assert status["plan"]["suggestions"][0]["changes"][0]["path"].startswith("spec.engine.")
    assert {"Job", "Deployment"} & set(kinds) == set()


def impossible(changes: dict[str, Any], fields: dict[str, Any]) -> list[str]:
    status, kinds = reported("llava", changes, refused=True, **fields)
    found = condition(status, "Planned")
    assert {"Job", "Deployment"} & set(kinds) == set()
    return [found["status"], found["reason"], found["message"]]


IMPOSSIBLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no-gpu": ({}, {"gpu_nodes": ()}),
    "no-version": ({"build": {"trtllmVersion": None}}, {}),
    "invalid": ({"engine": {"backend": "TensorRT", "parallelism": {"tensor": 5}}}, {}),
    "everything-that-is-wrong": (
        {
            "engine": {
                "backend": "TensorRT",
                "maxEncoderInputLen": 9,
                "extraBuildArgs": ["--fast"],
            }
        },
        {},
    ),
    "two-versions": ({"build": {"image": JUNE}, "runtime": {"image": AUGUST}}, {}),
    "more-ranks-than-a-node-has-gpus": (
        TWO_RANKS,
        {"gpu_nodes": (node("a", H100, **{"nvidia.com/gpu.count": "1"}),)},
    ),
    "ranks-on-shared-gpus": (
        TWO_RANKS,
        {"gpu_nodes": (node("a", f"{H100}-SHARED", **{"nvidia.com/gpu.replicas": "2"}),)},
    ),
    "another-version-than-the-operators-image": (
        {"build": {"image": JUNE}},
        {"settings": replace(SETTINGS, runtime_image=AUGUST)},
    ),
    "two-versions-whatever-is-given": (
        {"build": {"image": JUNE, "trtllmVersion": "0.20.0"}, "runtime": {"image": AUGUST}},
        {},
    ),
}


def test_what_cannot_be_planned_is_a_condition(golden: Golden) -> None:
    found = {name: impossible(changes, fields) for name, (changes, fields) in IMPOSSIBLE.items()}
    golden.check_yaml("impossible-plans.yaml", found)


def test_gpu_of_the_last_plan_is_kept() -> None:
    facts = facts_of("llava")
    first = inspected(TRTLLM, facts=facts, gpu_nodes=(node("a", L4),))
    gpu = recorded_gpu(first)
    both = (node("a", L4), node("b", H100))
    again = inspected(TRTLLM, facts=facts, gpu_nodes=both, gpu=gpu)

    assert (again[1].engine.gpu, recorded_gpu(again)) == (gpu, gpu)
    assert gpu.product == L4


def test_gpu_of_the_last_plan_outlives_a_refused_spec() -> None:
    """While a spec is refused the record stays, so that its repair is planned for the same GPU."""
    changes = {**TRTLLM, "engine": {"backend": "TensorRT", "parallelism": {"tensor": 5}}}
    gpu = GpuModel(product=L4, memory_bytes=22 << 30, compute_capability="8.9")
    refused = inspected(
        changes, facts=facts_of("llava"), gpu_nodes=(node("a", L4),), gpu=gpu, refused=True
    )

    assert refused[1].engine is None
    assert recorded_gpu(refused) == gpu


def test_a_model_that_serves_continues() -> None:
    """A changed spec that no longer fits leaves the build of the former engine alone."""
    snapshot, plan = inspected(
        {**TRTLLM, "engine": {"backend": "TensorRT", "maxBatchSize": 4096}},
        facts=facts_of("llava"),
        gpu_nodes=NODES,
        refused=True,
    )

    assert (plan.build.step, plan.build_plan, plan.release) == (Step.WAITING, None, ())
    assert (plan.problem.reason, snapshot.deleting) == ("DoesNotFit", False)


@cases(
    "count runtime",
    {
        "as-many-as-ranks": ("2", {}),
        "count-unknown": (None, {}),
        "nodes-to-come": ("1", {"nodeSelector": {"pool": "later"}, "gpu": {"product": H100}}),
    },
)
def test_ranks_that_may_find_a_node_are_built(count: str | None, runtime: dict[str, Any]) -> None:
    """What the nodes of today do not rule out is planned."""
    nodes = (node("a", H100, **{"nvidia.com/gpu.count": count}),)

    status, kinds = reported("llava", {**TWO_RANKS, "runtime": runtime}, gpu_nodes=nodes)

    assert condition(status, "Planned")["status"] == "True"
    assert "Job" in kinds


def test_slices_are_requested_by_their_name() -> None:
    resource = "nvidia.com/mig-3g.40gb"
    marks = {f"{resource}.product": f"{H100}-MIG-3g.40gb", f"{resource}.memory": "40448"}
    changes = {**TRTLLM, "runtime": {"gpu": {"resourceName": resource}}}
    snapshot, plan = inspected(
        {"model": {"allowPickle": True}, **changes},
        facts=facts_of("bart"),
        gpu_nodes=(node("a", H100, **marks),),
    )

    (job,) = [child for child in build(snapshot, plan) if child["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]

    assert pod["nodeSelector"] == {f"{resource}.product": f"{H100}-MIG-3g.40gb"}
    assert pod["containers"][0]["resources"]["limits"][resource] == "1"
    assert "nvidia.com/gpu" not in pod["containers"][0]["resources"]["limits"]
