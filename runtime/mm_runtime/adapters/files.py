"""Copies a LoRA adapter as peft saves it: a folder, from any source."""

from collections.abc import Mapping
from pathlib import Path

from mm_api.documents.build_plan import BuildPlan
from mm_runtime.base.containment import check_contained
from mm_runtime.errors import PermanentError, SourceNotFoundError
from mm_runtime.sources.address import parse_address
from mm_runtime.sources.identity import source_digest
from mm_runtime.sources.origin import opened

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
PICKLE = "adapter_model.bin"


def copy_adapter(name: str, source: str, folder: Path) -> str:
    """Write an adapter's files into an empty folder, look for what it needs, return its digest.

    Raises:
        SourceNotFoundError: it is not there, or is no adapter.
        PermanentError: a pickle, or a file in place of a folder.
    """
    _copy(source, folder)
    where = f"LoRA adapter {name} ({source})"
    if not (folder / CONFIG).is_file():
        raise SourceNotFoundError(f"{where} has no {CONFIG}; expected a folder, as peft saves it.")
    if not (folder / WEIGHTS).is_file():
        if not (folder / PICKLE).is_file():
            raise SourceNotFoundError(f"{where} has no {WEIGHTS}.")
        raise PermanentError(
            f"{where} is a pickle ({PICKLE}), which can run code, and shows its sizes only when"
            " it is loaded: save it as safetensors."
        )
    return source_digest(folder)


def sourced(plan: BuildPlan, sources: Mapping[str, str]) -> BuildPlan:
    """Return a plan whose adapters are read from these places instead of those it names.

    A plan may be of a model that found the same adapters elsewhere: their digests decide.
    """
    adapters = [
        one.model_copy(update={"source": sources.get(one.name, one.source)})
        for one in plan.adapters
    ]
    if plan.trtllm is None:
        return plan.model_copy(update={"lora": adapters or None})
    return plan.model_copy(update={"trtllm": plan.trtllm.model_copy(update={"lora": adapters})})


def _copy(source: str, folder: Path) -> None:
    address = parse_address(source)
    if isinstance(address, Path):
        check_contained(address)
    if isinstance(address, Path) and address.is_file():
        raise PermanentError(
            f"LoRA adapter {source} is a file; expected a folder, as peft saves it: unpack an"
            " archive before."
        )
    with opened(address) as origin:
        for name in origin.sizes:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            origin.copy(name, target)
