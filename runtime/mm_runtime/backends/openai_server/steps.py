"""PURE: the steps that stage a checkpoint for a server which reads it as it is."""

from collections.abc import Iterator

from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import ADAPTERS_FOLDER, CHECKPOINT_FOLDER
from mm_runtime.engine_build.checkpoint_steps import (
    checkpoint_steps,
    evaluation_steps,
    fetch_adapters_step,
    tokenizer_steps,
    vision_steps,
    weights_steps,
)
from mm_runtime.engine_build.step import Step

FOLDER = f"engine/{CHECKPOINT_FOLDER}"
"""Where the checkpoint lies, seen from the working directory."""


def staging_steps(plan: BuildPlan) -> Iterator[Step]:
    """Yield the steps of a plan, in order.

    Raises:
        PermanentError: the weights are pickles, and the plan does not allow them.
    """
    yield from checkpoint_steps(plan, FOLDER)
    yield from (vision_steps if plan.engine.disaggregated_encoders else weights_steps)(plan, FOLDER)
    if plan.lora:
        yield fetch_adapters_step(plan, f"engine/{ADAPTERS_FOLDER}")
    yield from tokenizer_steps(plan, FOLDER)
    yield from evaluation_steps(plan, FOLDER)
