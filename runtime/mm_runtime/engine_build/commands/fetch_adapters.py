"""Copy the LoRA adapters of a plan, and look whether they fit the checkpoint."""

import logging
import shutil

from mm_runtime.adapters.check import check_adapter, check_names
from mm_runtime.adapters.files import copy_adapter
from mm_runtime.engine_build.commands.step import StepContext, run_step
from mm_runtime.errors import SourceChangedError

log = logging.getLogger(__name__)


def fetch_adapters(context: StepContext) -> None:
    """Leave one folder a name below `adapters`, as `--lora_dir` of the commands says."""
    shutil.rmtree(context.paths.adapters, ignore_errors=True)
    for adapter in context.plan.adapters:
        folder = context.paths.adapters / adapter.name
        folder.mkdir(parents=True)
        found = copy_adapter(adapter.name, adapter.source, folder)
        if adapter.source_digest not in {None, found}:
            raise SourceChangedError(
                f"LoRA adapter {adapter.name} ({adapter.source}) is not the one that was planned"
                f" for: {found}, expected {adapter.source_digest}."
            )
        check_adapter(adapter.name, folder, context.plan.facts)
        if context.plan.engine.traits.stages:
            check_names(adapter.name, folder)
        log.info("adapter %s, uid %d", adapter.name, adapter.uid)


if __name__ == "__main__":
    run_step(fetch_adapters)
