"""PURE: the steps that make a Reference engine: the checkpoint, and its vision half exported."""

from collections.abc import Iterator

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildReason
from mm_runtime.engine_build.checkpoint_steps import (
    checkpoint_steps,
    fetch_adapters_step,
    weights_steps,
)
from mm_runtime.engine_build.evaluation_steps import evaluation_steps
from mm_runtime.engine_build.step import Step, module_step
from mm_runtime.engine_build.tokenizer_steps import tokenizer_steps


def reference_steps(plan: BuildPlan) -> Iterator[Step]:
    """Yield the steps of a plan for the Reference engine, in order."""
    vision = plan.engine.vision
    yield from checkpoint_steps(plan, "engine/llm", "engine/processor")
    if plan.lora:
        yield fetch_adapters_step(plan, "engine/adapters")
    yield from tokenizer_steps(plan, "engine/processor")
    if vision is None:
        yield from weights_steps(plan, "engine/llm")
    else:
        built = vision.tensorrt is not None
        yield module_step(
            plan,
            "export-vision",
            "compare all weights with their class, export the vision half, keep its answers",
            inputs=("engine/llm",),
            outputs=("engine/vision", "reference.npz", *(["exported"] if built else [])),
        )
        if built:
            yield module_step(
                plan,
                "build-vision",
                "build a TensorRT engine of the exported vision half, on this GPU",
                inputs=("exported",),
                outputs=("engine/vision", "tools.json"),
            )
        yield module_step(
            plan,
            "verify-vision",
            "compare the exported vision half with torch on sample images",
            inputs=("engine/vision", "reference.npz"),
            outputs=("verification.json",),
            permanent_reason=BuildReason.VERIFICATION_FAILED,
        )
    yield from evaluation_steps(plan, "engine/llm")
