"""Models beside the language model stay small: no torch, no transformers in their processes."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "mm_runtime.serving.preprocess.preprocessing",
        "mm_runtime.serving.encode.encoding",
        "mm_runtime.serving.postprocess.postprocessing",
        "mm_runtime.serving.prompts.tokens",
        "mm_runtime.serving.generate.generation",
        "mm_runtime.serving.generate.request",
    ],
)
def test_import_is_light(module: str) -> None:
    """A fresh interpreter that imports the module has not seen torch."""
    code = f"import sys, {module}; print(sorted({{'torch', 'transformers'}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert "[]" == done.stdout.strip()  # noqa: SIM300
