"""The vision half of each family in torch, with named inputs, ready for the ONNX exporter.

Belongs here: one module a family with one `load` function, the record they return, and this
registry. Must not: export, compare, read the plan beyond the facts. May import: torch and
transformers.
"""

from collections.abc import Callable
from pathlib import Path

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.build.commands.towers import blip2, llava, llava_onevision, mllama, qwen2_vl, vila
from mm_runtime.build.commands.towers.tower import Tower
from mm_runtime.errors import PermanentError

Loader = Callable[[Path, ModelFacts, bool], Tower]

TOWERS: dict[str, Loader] = {
    "llava": llava.load,
    "vila": vila.load,
    "blip2-opt": blip2.load,
    "llava-onevision": llava_onevision.load,
    "qwen2-vl": qwen2_vl.load,
    "mllama": mllama.load,
}


def load_tower(llm: Path, facts: ModelFacts, *, trust_remote_code: bool) -> Tower:
    """Return the vision half of a checkpoint in float32; its language model is not loaded.

    Raises:
        PermanentError: the family has no pictures.
    """
    if facts.family not in TOWERS:
        raise PermanentError(
            f"Family {facts.family} has no vision tower to export; expected one of"
            f" {', '.join(TOWERS)}."
        )
    return TOWERS[facts.family](llm, facts, trust_remote_code)
