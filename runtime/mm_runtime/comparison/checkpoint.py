"""The checkpoint of an engine that cannot be run by transformers, as the Reference engine reads it.

Runs in the interpreter that reads sources; steps that need torch run in the image's.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mm_api.contract import BUILD_PERMANENT, Command, ExitCode, Flag
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import (
    CHECKPOINT_FOLDER,
    TOKENIZER_FOLDER,
    EngineManifest,
)
from mm_api.evaluation import evaluation_cost
from mm_runtime.base.durable import write_durably
from mm_runtime.base.stop_signal import StopSignal
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.commands.checkpoint_folder import link_checkpoint, link_parts
from mm_runtime.engine_build.progress import Progress
from mm_runtime.engine_build.runner import StepFailedError, StepRunner
from mm_runtime.engine_build.step import Step
from mm_runtime.engine_build.unknown_prompt import unknown_prompt
from mm_runtime.errors import PermanentError, RuntimeCommandError
from mm_runtime.settings import STEP_SECONDS

log = logging.getLogger(__name__)

_PREPARES: Final = frozenset({"fetch", "unpickle", "make-tokenizer"})
"""Steps of a build after which its checkpoint can be run; each fails as it does there."""


def checkpoint_beside(
    manifest: EngineManifest,
    engine: Path,
    source: str | None,
    work: Path,
    steps: Callable[[BuildPlan], tuple[Step, ...]],
) -> Path | None:
    """Return the folder of an engine's checkpoint; None: the engine is one itself.

    Args:
        manifest: of the engine.
        engine: folder of its files.
        source: of the checkpoint, as `mm-runtime build` takes it; None: the engine must hold it.
        work: an empty folder with room for the checkpoint, where the engine does not hold it.
        steps: of a plan, as `mm_runtime.backends.steps`.

    Raises:
        PermanentError: no transformers can run it, or nothing says where it is.
        RuntimeCommandError: it was not fetched, or is another one than the engine was made of.
    """
    plan = manifest.plan
    if plan.engine.traits.runs_checkpoints:
        return None
    if evaluation_cost(plan.engine.model_copy(update={"evaluation": None}), plan.facts) is None:
        raise PermanentError(
            f"family {plan.engine.family} of backend {plan.engine.backend} is not run by "
            "transformers here: there is nothing to compare with"
        )
    paths = BuildPaths.of(work, plan)
    stages = plan.engine.traits.stages
    if stages:
        checkpoint = engine / CHECKPOINT_FOLDER
        link_parts(paths.as_reference, checkpoint, engine / TOKENIZER_FOLDER)
    else:
        checkpoint = _fetched(plan, paths, source, steps(plan))
        link_checkpoint(paths)
    if stages and (why := unknown_prompt(checkpoint)):
        raise PermanentError(f"trtllm-serve writes prompts itself, and {why}")
    return paths.as_reference


def _fetched(
    plan: BuildPlan, paths: BuildPaths, source: str | None, steps: tuple[Step, ...]
) -> Path:
    if source is None:
        raise PermanentError(
            f"an engine of backend {plan.engine.backend} holds no checkpoint that transformers "
            f"could run: name where it is, {Command.PROGRAM} {Command.COMPARE} {Flag.SOURCE} ..."
        )
    for folder in paths.folders:
        folder.mkdir(parents=True, exist_ok=True)
    write_durably(paths.plan, plan.to_json())
    with StopSignal() as stop:
        progress = Progress(None, plan.fingerprint)
        runner = StepRunner(source, paths, STEP_SECONDS, stop, progress)
        try:
            for step in steps:
                if step.name in _PREPARES:
                    log.info("%s: %s", step.name, step.purpose)
                    runner.run(step)
        except StepFailedError as failed:
            raise _error(failed) from failed
    return paths.weights


def _error(failed: StepFailedError) -> RuntimeCommandError:
    final = failed.exit_code in {*BUILD_PERMANENT, ExitCode.WEIGHTS_UNUSABLE}
    message = f"Step {failed.step.name}: {failed.message}"
    return PermanentError(message) if final else RuntimeCommandError(message)
