"""The configuration of a checkpoint's image processor, in either of the files that hold it."""

import json
from pathlib import Path
from typing import Any

from mm_runtime.base.layouts import layout_in

CONFIG = "preprocessor_config.json"
PROCESSOR_CONFIG = "processor_config.json"


def read_config(folder: Path) -> dict[str, Any]:
    """Return `preprocessor_config.json`, or the image part of `processor_config.json`.

    Of a checkpoint in another layout, what its config.json says about them.

    Raises:
        OSError: neither file is there.
        KeyError: the second has no image part.
    """
    other, own = layout_in(folder), folder / CONFIG
    found: dict[str, Any] = json.loads(own.read_text(encoding="utf-8")) if own.is_file() else {}
    if other is not None:
        layout, config = other
        return layout.processor(config, found)
    if own.is_file():
        return found
    part: dict[str, Any] = json.loads((folder / PROCESSOR_CONFIG).read_text(encoding="utf-8"))[
        "image_processor"
    ]
    return part
