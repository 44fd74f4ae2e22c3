"""NVILA's vision half: VILA's parts, of 2 x 2 or 3 x 3 patches a feature, tile by tile."""

from pathlib import Path

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.engine_build.commands.towers.tower import Tower
from mm_runtime.engine_build.commands.towers.vila import of_parts
from mm_runtime.errors import PermanentError


def load(llm: Path, facts: ModelFacts, trust_remote_code: bool) -> Tower:  # noqa: FBT001 (one signature for all)
    """Return the vision half of an NVILA checkpoint whose tiles are of one scale.

    Raises:
        PermanentError: tiles of several scales become features together.
    """
    del trust_remote_code  # no code of the checkpoint is needed
    if facts.vision is not None and facts.vision.scales:
        raise PermanentError(
            f"The checkpoint's images are seen at the scales {facts.vision.scales}; expected one,"
            " as in NVILA-Lite. Use backend PyTorch."
        )
    return of_parts(llm, facts)
