"""SmolVLM 2's vision half, which is Idefics3's."""

from pathlib import Path

import transformers

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.engine_build.commands.towers.idefics3 import tile_tower
from mm_runtime.engine_build.commands.towers.tower import Tower, load_without_layers


def load(llm: Path, facts: ModelFacts, trust_remote_code: bool) -> Tower:  # noqa: FBT001 (one signature for all)
    """Return the vision half of a SmolVLM 2 checkpoint."""
    kind = transformers.SmolVLMForConditionalGeneration
    return tile_tower(load_without_layers(kind, llm, trust_remote_code=trust_remote_code), facts)
