"""Models beside the language model stay small: no torch, no transformers in their processes."""

import json
import subprocess
import sys

import pytest

MODULES = (
    "mm_runtime.serving.preprocess.preprocessing",
    "mm_runtime.serving.encode.encoding",
    "mm_runtime.serving.postprocess.postprocessing",
    "mm_runtime.serving.prompts.tokens",
    "mm_runtime.serving.generate.generation",
    "mm_runtime.serving.generate.request",
)
PROGRAM = f"""
import importlib, json, sys
found = {{}}
for name in {MODULES}:
    importlib.import_module(name)
    found[name] = sorted({{"torch", "transformers"}} & set(sys.modules))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def heavy() -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_import_is_light(module: str, heavy: dict[str, list[str]]) -> None:
    assert heavy[module] == []
