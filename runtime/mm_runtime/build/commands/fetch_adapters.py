"""Copy the LoRA adapters of a plan, or unpack them."""

import logging
import shutil
from pathlib import Path

from mm_api.documents.trtllm_build import LoraAdapter
from mm_runtime.build.archives import is_archive, unpack
from mm_runtime.build.commands.step import StepContext, run_step
from mm_runtime.build.source import source_digest
from mm_runtime.errors import PermanentError, SourceChangedError, SourceNotFoundError
from mm_runtime.sources.address import parse_address
from mm_runtime.sources.origin import opened

log = logging.getLogger(__name__)

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
PICKLE = "adapter_model.bin"


def fetch_adapters(context: StepContext) -> None:
    """Leave one folder a name below `adapters`, as `--lora_dir` of the commands says."""
    build = context.plan.trtllm
    if build is None:
        raise PermanentError("The plan has no commands, and this step was asked for.")
    shutil.rmtree(context.places.adapters, ignore_errors=True)
    for adapter in build.lora:
        folder = context.places.adapters / adapter.name
        folder.mkdir(parents=True)
        _copy(adapter, folder)
        _check(adapter, folder, allow_pickle=context.plan.allow_pickle)
        log.info("adapter %s, uid %d", adapter.name, adapter.uid)


def _copy(adapter: LoraAdapter, folder: Path) -> None:
    address = parse_address(adapter.source)
    if isinstance(address, Path) and is_archive(address):
        unpack(address, folder)
        _lift(folder)
        return
    with opened(address) as origin:
        for name in origin.sizes:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            origin.copy(name, target)


def _lift(folder: Path) -> None:
    """Take the files out of the one folder that many archives wrap them in."""
    inside = list(folder.iterdir())
    if len(inside) == 1 and inside[0].is_dir():
        wrapped = inside[0].rename(folder.with_name(f"{folder.name}.wrapped"))
        folder.rmdir()
        wrapped.rename(folder)


def _check(adapter: LoraAdapter, folder: Path, *, allow_pickle: bool) -> None:
    where = f"LoRA adapter {adapter.name} ({adapter.source})"
    if not (folder / CONFIG).is_file():
        raise SourceNotFoundError(
            f"{where} has no {CONFIG}; expected a folder, or an archive of one, as peft saves it."
        )
    if not (folder / WEIGHTS).is_file():
        if not (folder / PICKLE).is_file():
            raise SourceNotFoundError(f"{where} has no {WEIGHTS}.")
        if not allow_pickle:
            raise PermanentError(
                f"{where} is a pickle ({PICKLE}), which can run code: save it as safetensors, or"
                " set spec.model.allowPickle."
            )
    found = source_digest(folder)
    if adapter.source_digest not in {None, found}:
        raise SourceChangedError(
            f"{where} is not the one that was planned for: {found}, expected"
            f" {adapter.source_digest}."
        )


if __name__ == "__main__":
    run_step(fetch_adapters)
