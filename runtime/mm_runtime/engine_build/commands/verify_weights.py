"""Compare the names and shapes of all weights with the modules of the checkpoint's class.

Nothing is computed and no module gets memory. Whether numbers are finite, `fetch` has looked.
"""

import logging
from pathlib import Path

from mm_api.documents.build_plan import BuildPlan
from mm_api.evaluation import PROCESS_BYTES
from mm_api.families import FAMILIES
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.memory_limit import memory_limit
from mm_runtime.errors import WeightsUnusableError

log = logging.getLogger(__name__)


def verify_weights(context: StepContext) -> None:
    """Refuse a checkpoint whose weights are not those of its class.

    Raises:
        WeightsUnusableError: as `load_weights`.
    """
    limit = memory_limit()
    if limit is not None and limit < PROCESS_BYTES:
        log.warning(
            "the weights are not compared with their class (pods of backend Reference do it when"
            " they start): it takes %d MiB, and this container may have %d; raise"
            " spec.build.resources.limits.memory",
            PROCESS_BYTES >> 20,
            limit >> 20,
        )
        return
    try:
        compare_with_class(context.plan, context.paths.weights)
    except WeightsUnusableError:
        raise
    except Exception as error:
        if context.paths.weights == context.paths.llm:
            raise  # pods load the same class
        log.warning("transformers of this image has no class to compare the weights: %s", error)


def compare_with_class(plan: BuildPlan, folder: Path) -> None:
    """Load the class of a checkpoint, or of its language model, onto no device.

    `folder`: of the checkpoint as the Reference engine reads it.

    Raises:
        WeightsUnusableError: as `load_weights`.
    """
    # Torch alone is more than a container may have that had only to copy files.
    from mm_runtime.engine_build.commands.towers import vila  # noqa: PLC0415
    from mm_runtime.reference_engine.language_model import load_nowhere  # noqa: PLC0415

    family = FAMILIES[plan.facts.family]
    load_nowhere(family, folder)
    if family.checkpoint.in_parts:
        vila.read_parts(folder, plan.facts, device_map="meta")
    log.info("the weights are those of the checkpoint's class")


if __name__ == "__main__":
    run_step(verify_weights)
