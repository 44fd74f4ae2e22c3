"""In `mm-runtime serve`: the models' sources begin with an import of `no_model`.

Python imports this file at its start where its folder is on PYTHONPATH; the processes of Triton's
models do not, so their sources say where modules are.
"""

import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FOLDERS = os.environ.get("PYTHONPATH", "").split(os.pathsep)


def patch_sources(module: Any) -> None:
    """Let the models' sources begin with where modules are."""
    sources = module.model_sources

    def changed() -> dict[str, str]:
        first = f"import sys; sys.path[:0] = {FOLDERS!r}; import no_model\n"
        return {name: first + text for name, text in sources().items()}

    module.model_sources = changed


sys.path.append(str(HERE.parents[1] / "gpu" / "sums"))
from notes import Finder  # noqa: E402 - the folder is no package

sys.meta_path.insert(0, Finder({"mm_runtime.repository.write": patch_sources}))
