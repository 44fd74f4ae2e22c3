"""In `mm-runtime serve`, with MM_BREAKS set to a folder: each model's source begins with `breaks`.

Python imports this file at its start where its folder is on PYTHONPATH.
"""

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDER = os.environ.get("MM_BREAKS", "")


def patch_sources(module: Any) -> None:
    """Let the models' sources begin with a call of `breaks.start`."""
    sources = module.model_sources

    def breaking() -> dict[str, str]:
        first = f"import sys; sys.path.insert(0, {str(HERE)!r}); "
        first += f"import breaks; breaks.start({FOLDER!r})\n"
        return {name: first + text for name, text in sources().items()}

    module.model_sources = breaking


if FOLDER:
    sys.path.insert(0, str(HERE.parent / "sums"))
    from notes import Finder

    sys.meta_path.insert(0, Finder({"mm_runtime.repository.write": patch_sources}))
