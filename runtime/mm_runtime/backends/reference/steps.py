"""PURE: the steps that make a Reference engine: the checkpoint, and its vision half exported."""

from collections.abc import Iterator

from mm_api.documents.build_plan import BuildPlan
from mm_runtime.engine_build.checkpoint_steps import (
    checkpoint_steps,
    evaluation_steps,
    fetch_adapters_step,
    tokenizer_steps,
    vision_steps,
    weights_steps,
)
from mm_runtime.engine_build.step import Step


def reference_steps(plan: BuildPlan) -> Iterator[Step]:
    yield from checkpoint_steps(plan, "engine/llm", "engine/processor")
    if plan.lora:
        yield fetch_adapters_step(plan, "engine/adapters")
    yield from tokenizer_steps(plan, "engine/processor")
    if plan.engine.vision is None:
        yield from weights_steps(plan, "engine/llm")
    else:
        yield from vision_steps(plan, "engine/llm")
    yield from evaluation_steps(plan, "engine/llm")
