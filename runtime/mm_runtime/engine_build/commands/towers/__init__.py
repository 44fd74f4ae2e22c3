"""The vision half of each family in torch, with named inputs, ready for the ONNX exporter.

Belongs here: one module with one `load` function for a family, of its name or `checkpoint.tower`,
and the record that they return. Must not: export, compare, read the plan beyond the facts. May
import: torch and transformers.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES, SERVED
from mm_runtime.engine_build.commands.towers.tower import Tower, TowerSource
from mm_runtime.errors import PermanentError

Loader = Callable[[TowerSource], Tower]

WITH_TOWERS = tuple(
    name for name, family in FAMILIES.items() if name in SERVED and family.sees and family.has_tower
)


def load_tower(llm: Path, facts: ModelFacts, *, trust_remote_code: bool) -> Tower:
    """Return a checkpoint's vision half in float32; PermanentError: the family has no images."""
    if facts.family not in WITH_TOWERS:
        raise PermanentError(
            f"Family {facts.family} has no vision tower to export; expected one of"
            f" {', '.join(WITH_TOWERS)}."
        )
    name = FAMILIES[facts.family].checkpoint.tower or facts.family.replace("-", "_")
    load: Loader = import_module(f"{__name__}.{name}").load
    return load(TowerSource(llm, facts, trust_remote_code))
