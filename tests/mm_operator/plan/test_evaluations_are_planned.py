"""The plan has the cost of the checkpoint's own answers, and the spec switches them off."""

from typing import Any

import pytest

from mm_api.documents.build_plan import EngineSpec
from mm_api.evaluation import evaluation_cost, evaluation_limits
from mm_api.quantized import quantization_of
from mm_operator.children.hardware import building_requests
from mm_operator.model import EnginePlan, Outcome
from mm_operator.status.derive import derive
from mm_runtime.backends import steps
from support.cases import cases
from support.model_configs import facts_of, planned, planned_on_pytorch
from support.staged import inspected

GIB = 1 << 30


def engine_of(build: dict[str, object] | None = None) -> EnginePlan:
    _, plan = inspected({"build": build} if build else None, built=True)
    return plan.engine


def reference(family: str) -> EngineSpec:
    engine = engine_of().build_plan.engine
    limits = engine.limits.model_copy(update={"max_seq_len": 4096, "max_input_len": 4000})
    return engine.model_copy(update={"family": family, "limits": limits})


def test_the_cost_stands_in_plan_and_status() -> None:
    """Type, bytes and seconds; the build's pod requests the bytes; the last step computes them."""
    planned = engine_of()
    cost = evaluation_cost(planned.build_plan.engine, planned.build_plan.facts)
    status = derive(*inspected(None, built=True), Outcome())
    assert status["plan"]["evaluation"] == {
        "dtype": cost.dtype,
        "memoryBytes": cost.memory_bytes,
        "seconds": cost.seconds,
    }
    requested = int(building_requests(planned.build_plan)["memory"].removesuffix("Mi")) << 20
    assert requested >= cost.memory_bytes
    assert steps(planned.build_plan)[-1].name == "evaluation"


def test_off_is_another_engine_without_the_step() -> None:
    """Engines of one fingerprint have the same files: without the answers it is another one."""
    usual, off = engine_of(), engine_of({"evaluation": "Off"})
    assert off.build_plan.fingerprint != usual.build_plan.fingerprint
    assert "evaluation" not in {step.name for step in steps(off.build_plan)}
    assert evaluation_cost(off.build_plan.engine, off.build_plan.facts) is None
    assert engine_of({"evaluation": "Auto"}).build_plan == usual.build_plan


@cases("limit warned", {"too-low": ("64Mi", True), "ample": ("64Gi", False)})
def test_a_limit_below_the_cost_is_warned_of(limit: str, *, warned: bool) -> None:
    """The step would leave the answers out, and pods would not be compared."""
    planned = engine_of({"resources": {"limits": {"memory": limit}}})
    assert warned == ("EvaluationSkipped" in {one.code for one in planned.warnings})


@cases("family dtype", {"small": ("t5", "float32"), "seven-billion": ("llava", "float16")})
def test_large_checkpoints_are_computed_in_their_own_type(family: str, dtype: str) -> None:
    """In float32 seven billion weights would take 28 GB; as stored they take half."""
    facts = facts_of(family)
    cost = evaluation_cost(reference(family), facts)
    assert cost.dtype == dtype
    assert facts.weight_bytes < cost.memory_bytes < facts.weight_bytes + 4 * GIB + GIB


@pytest.mark.parametrize("backend", ["TensorRT", "PyTorch"])
def test_engines_of_other_backends_are_compared_with_the_checkpoint(backend: Any) -> None:
    """Its vision tower runs in torch there, which counts besides."""
    facts = facts_of("llava")
    own = evaluation_cost(reference("llava"), facts)
    other = evaluation_cost(reference("llava").model_copy(update={"backend": backend}), facts)
    assert other.dtype == own.dtype
    tower = other.memory_bytes - own.memory_bytes
    assert 1.2e9 < tower < 2e9, "CLIP ViT-L/14-336 has 1.2 GB of weights in float32"


def test_the_last_step_computes_the_answers_of_every_backend() -> None:
    """The build requests its memory, and Off is another engine without it."""
    plans = [planned("qwen2-vl", version="1.1.0"), planned_on_pytorch("qwen2-vl")]
    for plan in [one.build_plan for one in plans]:
        cost = evaluation_cost(plan.engine, plan.facts)
        assert steps(plan)[-1].name == "evaluation"
        requested = int(building_requests(plan)["memory"].removesuffix("Mi")) << 20
        assert requested >= cost.memory_bytes
    off = planned("qwen2-vl", version="1.1.0", build={"evaluation": "Off"}).build_plan
    assert off.fingerprint != plans[0].fingerprint
    assert "evaluation" not in {step.name for step in steps(off)}


def test_a_checkpoint_that_no_build_can_run_is_warned_of() -> None:
    """Pickles that a converter reads as they are: nothing compares such an engine, by name."""
    facts = facts_of("whisper").model_copy(update={"weight_format": "pickle"})
    warned = {"EvaluationUnavailable"}
    for evaluation, expected in (("Auto", warned), ("Off", set())):
        plan = planned("whisper", facts=facts, build={"evaluation": evaluation})
        assert warned & {one.code for one in plan.warnings} == expected


@pytest.mark.parametrize(
    "name", [None, "FP8", "INT8WeightOnly", "INT4WeightOnly", "INT4AWQ", "SmoothQuant"]
)
def test_planned_quantizations_are_recognised(name: str | None) -> None:
    """The pod reads it from the plan of its engine: bounds follow it."""
    plan = planned("llava", {"quantization": name}).build_plan
    assert plan is not None
    assert quantization_of(plan) == name


def test_one_short_prompt_is_answered_at_a_time() -> None:
    """The cache of a full batch of long sequences would be larger than the weights."""
    limits = evaluation_limits(reference("llava"))
    features = engine_of().build_plan.engine.vision
    assert limits.max_batch_size == 1
    assert limits.max_seq_len == features.features_per_image + 512
