"""Go programs of tests alone, and files of the modules that they are made of."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from mm_devcluster.binaries import ensure_binaries, is_built
from mm_devcluster.paths import go_modules_dir

SECONDS = 240.0


def module_folder(program: str, module: str) -> Path:
    reported = subprocess.run(
        ["go", "mod", "download", "-json", module],
        cwd=go_modules_dir() / program,
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    ).stdout
    return Path(json.loads(reported)["Dir"])


def compiled(variable: str, how: str, *names: str) -> list[Path]:
    """Return programs; the test is skipped where a variable does not request to compile them."""
    if not is_built(names[0]) and not os.environ.get(variable):
        pytest.skip(f"{names[0]} is not compiled: {how}")
    found = ensure_binaries(list(names))
    return [found[name] for name in names]
