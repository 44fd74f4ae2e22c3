"""LoRA adapters that a checkpoint brings along, judged by their headers.

Answers without them would be another model's, and nothing would say so: each must be there and fit.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from mm_api.documents.model_facts import InspectReason, TextFacts
from mm_api.families import FAMILIES
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.small_files import read_object
from mm_runtime.inspect.weights import read_header
from mm_runtime.sources.identity import ADAPTER_FILES

Modules = Mapping[str, tuple[int, int]]
"""Name in a layer -> sizes of input and output."""

_TENSOR = re.compile(r"\.layers\.(\d+)\.([a-z_.]+)\.lora_([AB])\.weight$")


def read_own_adapters(source: Path, family: str, text: TextFacts) -> int | None:
    """Return the numbers of all adapters of a checkpoint, None where its family has none.

    Raises:
        InspectRefusedError: `WeightsMissing` or `WeightsInvalid`.
    """
    own = FAMILIES[family].checkpoint.own_adapters
    if own is None:
        return None
    modules = own.modules(text)
    return sum(_numbers(source / folder, text.layers, modules) for folder in own.folders)


def _numbers(folder: Path, layers: int, modules: Modules) -> int:
    for name in ADAPTER_FILES:
        if not (folder / name).is_file():
            raise InspectRefusedError(
                InspectReason.WEIGHTS_MISSING,
                f"{folder.name}/{name} is missing: the model answers requests with images or"
                " recordings with the LoRA adapters beside its weights. Download the folder too.",
            )
    config, weights = (folder / name for name in ADAPTER_FILES)
    settings = read_object(config, InspectReason.CONFIG_INVALID)
    rank, alpha, kind = (settings.get(name) for name in ("r", "lora_alpha", "peft_type"))
    if kind != "LORA" or type(rank) is not int or rank < 1 or not isinstance(alpha, int | float):
        raise InspectRefusedError(
            InspectReason.CONFIG_INVALID,
            f"{folder.name}/{config.name} says peft_type {kind!r}, r {rank!r} and lora_alpha"
            f" {alpha!r}; expected LORA and two numbers above 0.",
        )
    total, sides = 0, defaultdict[str, set[str]](set)
    for name, entry in read_header(weights).items():
        place = _place(f"{folder.name}: {name}", name, layers, modules)
        inner, outer = modules[place[2]]
        wanted = [rank, inner] if place[3] == "A" else [outer, rank]
        if entry.get("shape") != wanted:
            raise _invalid(f"{folder.name}: {name} is {entry.get('shape')}; expected {wanted}")
        total += wanted[0] * wanted[1]
        sides[name.partition(".lora_")[0]].add(name.partition(".lora_")[2])
    lonely = next((name for name, found in sorted(sides.items()) if len(found) == 1), None)
    if lonely is not None or not sides:
        raise _invalid(f"{folder.name} has not both matrices of {lonely or 'any module'}")
    return total


def _place(where: str, name: str, layers: int, modules: Modules) -> re.Match[str]:
    """Return layer, module and side of a matrix of the language model."""
    found = _TENSOR.search(name)
    if found is None or found[2] not in modules or int(found[1]) >= layers:
        raise _invalid(
            f"{where} is of no module that is adapted here: expected layers 0 to {layers - 1}"
            f" and {', '.join(modules)}"
        )
    return found


def _invalid(what: str) -> InspectRefusedError:
    return InspectRefusedError(InspectReason.WEIGHTS_INVALID, f"{what}. Download it again.")
