"""What a LoRA adapter changes, or why an engine cannot apply it: by its files alone."""

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.adapters.files import CONFIG, WEIGHTS
from mm_runtime.adapters.layout import Place, expected_sizes, place_of
from mm_runtime.errors import PermanentError
from mm_runtime.inspect.finite import refuse_not_finite
from mm_runtime.inspect.weights import read_header

UNSERVED: Final = (
    "use_dora",
    "use_qalora",
    "use_bdlora",
    "kasa_config",
    "arrow_config",
    "rank_pattern",
    "alpha_pattern",
    "modules_to_save",
    "layer_replication",
    "alora_invocation_tokens",
)
"""Settings of peft under which an adapter is more than matrices of one rank."""


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """What of `adapter_config.json` counts when an adapter is applied."""

    rank: int
    alpha: float
    root: bool
    """The sum is divided by the root of the rank (rsLoRA), not by the rank."""

    @property
    def scale(self) -> float:
        return self.alpha / (math.sqrt(self.rank) if self.root else self.rank)


def read_config(name: str, folder: Path) -> AdapterConfig:
    """Return the configuration of an adapter.

    Raises:
        PermanentError: it is no LoRA of plain matrices of one rank.
    """
    settings = _parsed(name, folder / CONFIG)
    kind = settings.get("peft_type", "LORA")
    if kind != "LORA":
        raise PermanentError(f"Adapter {name} is {kind}; expected LORA, as peft saves it.")
    used = [one for one in UNSERVED if settings.get(one)]
    if used:
        raise PermanentError(
            f"LoRA adapter {name} uses {', '.join(used)}, which this version does not apply;"
            " expected plain matrices of one rank."
        )
    rank, alpha = settings.get("r"), settings.get("lora_alpha")
    if not isinstance(rank, int) or not isinstance(alpha, int | float) or rank < 1:
        raise PermanentError(
            f"LoRA adapter {name}: {CONFIG} has r = {rank} and lora_alpha = {alpha}; expected two"
            " numbers above 0."
        )
    return AdapterConfig(rank, float(alpha), bool(settings.get("use_rslora")))


def check_adapter(
    name: str, folder: Path, facts: ModelFacts
) -> tuple[AdapterConfig, set[tuple[str, str]]]:
    """Return the configuration of an adapter, and (engine, module) of all that it changes.

    Raises:
        PermanentError: it was made for another model, is incomplete, or not finite.
    """
    config = read_config(name, folder)
    sides: dict[tuple[str, int, str], set[str]] = defaultdict(set)
    for tensor, entry in sorted(read_header(folder / WEIGHTS).items()):
        place, shape = place_of(tensor, facts), entry.get("shape", [])
        wanted, axis = _wanted(place, config.rank, facts)
        if len(shape) != len(wanted) or shape[axis] != wanted[axis]:
            raise PermanentError(
                f"LoRA adapter {name} was made for another model: {tensor} is {shape}, and this"
                f" checkpoint's {place.module} needs {wanted[axis]} there."
            )
        if shape != wanted:
            raise PermanentError(
                f"LoRA adapter {name}: {tensor} is {shape}, and {CONFIG} says that the rank is"
                f" {config.rank}."
            )
        sides[place.engine, place.layer, place.module].add(place.side)
    if not sides:
        raise PermanentError(f"LoRA adapter {name} holds no tensors.")
    for (engine, layer, module), found in sides.items():
        if len(found) == 1:
            raise PermanentError(
                f"LoRA adapter {name}: {engine} layer {layer} {module} has not both matrices of one"
                " rank."
            )
    refuse_not_finite([folder / WEIGHTS], f"LoRA adapter {name}")
    return config, {(engine, module) for engine, _, module in sides}


def check_names(name: str, folder: Path) -> None:
    """Refuse an adapter that vLLM would fail to read (parse_fine_tuned_lora_name of vllm/lora)."""
    for tensor in sorted(read_header(folder / WEIGHTS)):
        if not tensor.endswith((".lora_A.weight", ".lora_B.weight")):
            raise PermanentError(
                f"LoRA adapter {name}: {tensor} is not a name that vLLM reads; expected"
                " ...MODULE.lora_A.weight, as peft's save_pretrained writes it."
            )


def _wanted(place: Place, rank: int, facts: ModelFacts) -> tuple[list[int], int]:
    inner, outer = expected_sizes(place, facts)
    return ([rank, inner], 1) if place.side == "A" else ([outer, rank], 0)


def _parsed(name: str, config: Path) -> dict[str, Any]:
    try:
        settings = json.loads(config.read_bytes())
    except ValueError as error:
        raise PermanentError(f"LoRA adapter {name}: {CONFIG} is not JSON: {error}.") from error
    if not isinstance(settings, dict):
        raise PermanentError(f"LoRA adapter {name}: {CONFIG} is not a JSON object.")
    return settings
