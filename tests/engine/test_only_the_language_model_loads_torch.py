"""Models beside the language model stay small: no torch, no transformers in their processes."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "mm_runtime.engine.preprocessing",
        "mm_runtime.engine.encoding",
        "mm_runtime.engine.postprocessing",
        "mm_runtime.engine.tokens",
        "mm_runtime.engine.generation",
        "mm_runtime.engine.reference.request",
    ],
)
def test_import_is_light(module: str) -> None:
    """A fresh interpreter that imports the module has not seen torch."""
    code = f"import sys, {module}; print(sorted({{'torch', 'transformers'}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "[]" == done.stdout.strip()  # noqa: SIM300
