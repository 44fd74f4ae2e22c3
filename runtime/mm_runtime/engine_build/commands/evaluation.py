"""Compute the checkpoint's own answers to a few prompts, and keep them with the engine.

Pods compare what they serve with them before they are ready.
"""

import logging
from importlib.metadata import version
from pathlib import Path

from mm_api.evaluation import evaluation_cost
from mm_runtime.base.durable import write_durably
from mm_runtime.base.importing import importing
from mm_runtime.engine_build.commands.checkpoint_folder import link_parts
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.memory_limit import memory_limit
from mm_runtime.engine_build.unknown_prompt import unknown_prompt
from mm_runtime.errors import WeightsUnusableError

log = logging.getLogger(__name__)


def keep_evaluation(context: StepContext) -> None:
    """Write `evaluation.json`, where this container may have the memory for it."""
    plan, path = context.plan, context.paths.evaluation
    path.unlink(missing_ok=True)  # of a step that was killed
    limit = memory_limit()
    cost = evaluation_cost(plan.engine, plan.facts)
    if cost is None:
        return
    if limit is not None and cost.memory_bytes > limit:
        log.warning(
            "EvaluationSkipped: the checkpoint's answers take %d MiB to compute, and this container"
            " may have %d; pods will not be compared with the checkpoint. Raise"
            " spec.build.resources.limits.memory and build again, or set spec.build.evaluation to"
            " Off",
            cost.memory_bytes >> 20,
            limit >> 20,
        )
        return
    if plan.engine.traits.stages and (why := unknown_prompt(context.paths.weights)):
        log.warning("EvaluationSkipped: trtllm-serve writes prompts itself, and %s", why)
        return
    try:
        # Torch alone is more than a container may have that had only to copy files.
        with importing():
            from mm_runtime.engine_build.commands.checkpoint_answers import (  # noqa: PLC0415
                answers_of,
            )

        evaluation = answers_of(plan, _checkpoint_folder(context))
    except WeightsUnusableError:
        raise
    except Exception as error:  # noqa: BLE001 - a build does not fail for want of it; pods say so
        log.warning(
            "EvaluationSkipped: the checkpoint's answers were not computed with transformers %s of"
            " this image: %s",
            version("transformers"),
            error,
        )
        return
    write_durably(path, evaluation.to_json())
    tokens = sum(len(prompt.steps) for prompt in evaluation.prompts)
    log.info("evaluation: %d prompts, %d tokens in %s", len(evaluation.prompts), tokens, cost.dtype)


def _checkpoint_folder(context: StepContext) -> Path:
    """Return the folder that holds the checkpoint as the Reference engine reads it."""
    paths = context.paths
    if context.plan.engine.traits.runs_checkpoints:
        return paths.unfinished
    link_parts(paths.as_reference, paths.weights, paths.tokenizer, paths.adapters)
    return paths.as_reference


if __name__ == "__main__":
    run_step(keep_evaluation)
