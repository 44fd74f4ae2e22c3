"""PURE: a plan -> the ordered steps of its build."""

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.build_result import BuildReason
from mm_api.families import FAMILIES
from mm_runtime.engine_build.evaluation_steps import evaluation_steps
from mm_runtime.engine_build.staging_steps import staging_steps
from mm_runtime.engine_build.step import Step, module_step
from mm_runtime.engine_build.tokenizer_steps import tokenizer_steps
from mm_runtime.engine_build.trtllm_steps import fetch_adapters_step, trtllm_steps

TENSORRT = frozenset({"TensorRT", "TensorRTRTX"})
"""Vision engines that are built from the ONNX model."""


def steps(plan: BuildPlan) -> tuple[Step, ...]:
    """Return the steps of a plan, in order.

    Raises:
        PermanentError: a plan whose parts do not fit together.
    """
    engine = plan.engine
    if engine.backend == "TensorRT":
        return trtllm_steps(plan)
    if engine.backend == "PyTorch":
        return staging_steps(plan)
    chosen = [
        module_step(
            plan,
            "fetch",
            "copy the checkpoint and compare its digest with the plan's",
            inputs=(),
            outputs=("engine/llm", "engine/processor", "pickles", "fetched.json"),
            permanent_reason=BuildReason.SOURCE_NOT_FOUND,
        )
    ]
    if plan.facts.weight_format == "pickle":
        chosen.append(
            module_step(
                plan,
                "unpickle",
                "turn pickled weights into safetensors",
                inputs=("pickles",),
                outputs=("engine/llm",),
            )
        )
    if plan.lora:
        chosen.append(fetch_adapters_step(plan, "engine/adapters"))
    chosen += tokenizer_steps(plan, "engine/processor")
    if engine.vision is None and _has_class(plan):
        chosen.append(
            module_step(
                plan,
                "verify-weights",
                "compare the names and shapes of all weights with the checkpoint's class",
                inputs=("engine/llm",),
                outputs=(),
            )
        )
    if engine.vision is not None:
        chosen.append(
            module_step(
                plan,
                "export-vision",
                "compare all weights with their class, export the vision half, keep its answers",
                inputs=("engine/llm",),
                outputs=("engine/vision", "reference.npz"),
            )
        )
        chosen.append(
            module_step(
                plan,
                "verify-vision",
                "compare the ONNX model with torch on sample images",
                inputs=("engine/vision", "reference.npz"),
                outputs=("verification.json",),
                permanent_reason=BuildReason.VERIFICATION_FAILED,
            )
        )
        if engine.vision.engine in TENSORRT:
            chosen.append(
                module_step(
                    plan,
                    "build-vision",
                    "build a TensorRT engine of the ONNX model",
                    inputs=("engine/vision",),
                    outputs=("engine/vision",),
                )
            )
    return (*chosen, *evaluation_steps(plan, "engine/llm"))


def _has_class(plan: BuildPlan) -> bool:
    """Return whether the family's class has just the parts of the checkpoint."""
    return FAMILIES[plan.engine.family].sees == (plan.facts.vision is not None)
