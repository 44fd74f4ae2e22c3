"""Whether a folder's config.json is of another layout of its family."""

import json
from pathlib import Path
from typing import Any

from mm_api.families import FAMILIES
from mm_api.families.layouts import OtherLayout

CONFIG, WEIGHTS = "config.json", "llm"
"""File, and the folder of engines that has it, with the weights."""


def layout_in(folder: Path) -> tuple[OtherLayout, dict[str, Any]] | None:
    """Return the layout of a checkpoint with its config.json; None: that of transformers' class.

    Args:
        folder: of a checkpoint's files, or of the small ones that an engine has beside its weights.
    """
    path = folder / CONFIG
    if not path.is_file():
        path = folder.parent / WEIGHTS / CONFIG
    if not path.is_file():
        return None
    config = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        return None
    layouts = (family.layout_of(config) for family in FAMILIES.values())
    return next(((one, config) for one in layouts if one is not None), None)
