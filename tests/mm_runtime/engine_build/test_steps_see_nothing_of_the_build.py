"""Code of a checkpoint may run in a build step as the build's own user: it finds no token there."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.root
TOKEN = "hf_never_to_be_read"  # a marker to search for
USER = 65532
"""Of the images; the superuser reads everything of everyone."""

STEP = r"""
import ctypes, json, os, sys
parent = os.getppid()
found = {"parent is the build": open(f"/proc/{parent}/comm").read().startswith("python")}
found["own environment"] = "TOKEN" in "".join(os.environ)
for name in ("environ", "mem", "maps", "auxv", "task/%d/environ" % parent):
    try:
        with open(f"/proc/{parent}/{name}", "rb") as file:
            found[name] = len(file.read(1))
    except OSError as error:
        found[name] = type(error).__name__
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206
found["ptrace"] = libc.ptrace(PTRACE_SEIZE, parent, 0, 0)
with open(sys.argv[1], "w") as out:
    json.dump(found, out)
"""

BUILD = r"""
import sys
from pathlib import Path
from mm_api.documents.build_result import BuildReason
from mm_runtime.engine_build.build_paths import BuildPaths
from mm_runtime.engine_build.progress import Progress
from mm_runtime.engine_build.runner import StepRunner
from mm_runtime.engine_build.step import Step
from mm_runtime.base.stop_signal import StopSignal

folder = Path(sys.argv[1])

class Program(Step):
    def argv(self, *_):
        return (sys.executable, str(folder / "step.py"), str(folder / "found.json"))

class Here:
    logs = work = folder

step = Program(
    name="script", module="", purpose="", inputs=(), outputs=(),
    permanent_reason=BuildReason.STEP_FAILED, fingerprint="0",
)
StepRunner("", Here, 60, StopSignal(), Progress(None, "a" * 64)).run(step)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the images' user may enter, as pytest's own may not be."""
    path = Path(tempfile.mkdtemp(prefix="steps-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def found(folder: Path) -> dict[str, object]:
    (folder / "step.py").write_text(STEP)
    (folder / "build.py").write_text(BUILD)
    command = [sys.executable, str(folder / "build.py"), str(folder)]
    user = {"user": USER, "group": USER, "extra_groups": []} if os.getuid() == 0 else {}
    environment = {**os.environ, "HF_TOKEN": TOKEN, "HOME": str(folder)}
    ran = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        timeout=120,
        check=False,
        capture_output=True,
        text=True,
        **user,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    read: dict[str, object] = json.loads((folder / "found.json").read_text())
    return read


def test_a_step_cannot_look_into_the_build(found: dict[str, object]) -> None:
    assert found.pop("parent is the build") is True
    assert found.pop("own environment") is False
    assert found.pop("ptrace") == -1
    assert set(found.values()) == {"PermissionError"}, found
