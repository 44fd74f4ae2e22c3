"""The configuration of a checkpoint's image processor, in either of the files that hold it."""

import json
from pathlib import Path
from typing import Any

from mm_api.checkpoint.parts import JOINED, PROCESSOR, processor_of


def read_config(folder: Path) -> dict[str, Any]:
    """Return the image part of `processor_config.json`, or `preprocessor_config.json`.

    Raises:
        FileNotFoundError: neither file has it.
        CheckpointError: the files contradict each other.
    """
    found = processor_of(lambda name: read_json(folder / name))
    if not found:
        raise FileNotFoundError(f"{folder} has neither {PROCESSOR} nor image_processor in {JOINED}")
    return found


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON file; empty: there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found
