"""Send one prompt to an engine that was just built, and keep the answer that it is sure of.

Pods of the engine are not ready before they answer the same.
"""

import logging

from mm_api.golden import golden_answer_bytes, records_golden_answer
from mm_runtime.base.durable import write_durably
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.engine_build.memory_limit import memory_limit
from mm_runtime.engine_build.seal import unsealed
from mm_runtime.errors import WeightsUnusableError
from mm_runtime.serving.directory import EngineDirectory

log = logging.getLogger(__name__)


def keep_golden_prompt(context: StepContext) -> None:
    """Write `golden.json`, where the engine can run here and is sure of a token."""
    plan, paths = context.plan, context.paths
    paths.golden.unlink(missing_ok=True)  # of a step that was killed
    if not records_golden_answer(plan):
        return
    needed, limit = golden_answer_bytes(plan), memory_limit()
    if limit is not None and needed > limit:
        log.info(
            "no golden answer: it takes %d MiB, and this container may have %d; raise"
            " spec.build.resources.limits.memory",
            needed >> 20,
            limit >> 20,
        )
        return
    # Torch alone is more than a container may have that had only to copy files.
    from mm_runtime.engine_build.commands.golden_inference import golden_prompt_of  # noqa: PLC0415

    try:
        golden = golden_prompt_of(EngineDirectory(paths.unfinished, unsealed(plan)))
    except WeightsUnusableError:
        raise
    except Exception as error:  # noqa: BLE001 - a help to pods; a build does not fail for want of it
        log.info("no golden answer: %s", error)
        return
    if golden is None:
        log.info("no golden answer: the engine is not sure of its first token")
        return
    write_durably(paths.golden, golden.to_json())
    log.info("golden answer: %d tokens, %r", len(golden.tokens), golden.answer)


if __name__ == "__main__":
    run_step(keep_golden_prompt)
