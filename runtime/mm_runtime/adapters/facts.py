"""LoRA adapters of a spec: what engines must be built for, or why one does not fit the checkpoint.

Known before any GPU is requested: an adapter is small, so its files are copied and their headers
read; the build copies them again and compares the digest.
"""

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from mm_api.documents.model_facts import AdapterFacts, InspectReason, LoraFacts, ModelFacts
from mm_runtime.adapters.check import check_adapter
from mm_runtime.adapters.files import copy_adapter
from mm_runtime.errors import PermanentError
from mm_runtime.inspect.refusals import with_reasons
from mm_runtime.sources.address import parse_address


def with_adapters(facts: ModelFacts, adapters: Sequence[tuple[str, str]]) -> ModelFacts:
    """Return the facts with those of the adapters, given as names and addresses.

    Raises:
        InspectRefusedError: one is missing, may not be read, or does not fit the checkpoint.
        InspectInterruptedError: its server does not answer now.
    """
    if not adapters:
        return facts
    with with_reasons(InspectReason.ADAPTER_REFUSED):
        return facts.model_copy(update={"lora": _read(facts, adapters)})


def _read(facts: ModelFacts, adapters: Sequence[tuple[str, str]]) -> LoraFacts:
    found: list[AdapterFacts] = []
    modules: dict[str, set[str]] = defaultdict(set)
    highest = 1
    for name, source in adapters:
        with tempfile.TemporaryDirectory() as folder:
            copied = Path(folder)
            _look(name, source)
            digest = copy_adapter(name, source, copied)
            found.append(AdapterFacts(name=name, source_digest=digest))
            config, changed = check_adapter(name, copied, facts)
            highest = max(highest, config.rank)
            for engine, module in changed:
                modules[engine].add(module)
    sorted_modules = {engine: sorted(names) for engine, names in sorted(modules.items())}
    return LoraFacts(adapters=found, modules=sorted_modules, rank=highest)


def _look(name: str, source: str) -> None:
    address = parse_address(source)
    if isinstance(address, Path) and not address.exists():
        raise PermanentError(
            f"LoRA adapter {name}: {source} does not exist; expected a folder, as peft saves it."
        )
