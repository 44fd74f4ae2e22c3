"""Copy the LoRA adapters of a plan, or unpack them."""

import logging
import shutil

from mm_runtime.build.adapter_files import copy_adapter
from mm_runtime.build.commands.step import StepContext, run_step
from mm_runtime.errors import PermanentError, SourceChangedError

log = logging.getLogger(__name__)


def fetch_adapters(context: StepContext) -> None:
    """Leave one folder a name below `adapters`, as `--lora_dir` of the commands says."""
    build = context.plan.trtllm
    if build is None:
        raise PermanentError("The plan has no commands, and this step was asked for.")
    shutil.rmtree(context.places.adapters, ignore_errors=True)
    for adapter in build.lora:
        folder = context.places.adapters / adapter.name
        folder.mkdir(parents=True)
        found = copy_adapter(
            adapter.name, adapter.source, folder, allow_pickle=context.plan.allow_pickle
        )
        if adapter.source_digest not in {None, found}:
            raise SourceChangedError(
                f"LoRA adapter {adapter.name} ({adapter.source}) is not the one that was planned"
                f" for: {found}, expected {adapter.source_digest}."
            )
        log.info("adapter %s, uid %d", adapter.name, adapter.uid)


if __name__ == "__main__":
    run_step(fetch_adapters)
