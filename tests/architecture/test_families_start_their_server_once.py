"""Tests of one family follow each other, so that its server starts once in a file."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]

FILE = """
import pytest

@pytest.fixture
def served(request, {requested}):
    return request.param

@pytest.mark.parametrize("served", ["opt", "t5"], indirect=True)
def test_text(served):
    pass

def test_no_family():
    pass

@pytest.mark.parametrize("served", ["t5", "opt"], indirect=True)
@pytest.mark.parametrize("size", [1, 2])
def test_image(served, size):
    pass
"""
WRITTEN = ["text[opt]", "text[t5]", "no_family"]
WRITTEN += ["image[1-t5]", "image[1-opt]", "image[2-t5]", "image[2-opt]"]
BY_FAMILY = ["text[opt]", "image[1-opt]", "image[2-opt]"]
BY_FAMILY += ["text[t5]", "image[1-t5]", "image[2-t5]", "no_family"]


def order(folder: Path, requested: str) -> list[str]:
    """Return the tests of a file in the order in which they would run."""
    (folder / "test_one.py").write_text(FILE.format(requested=requested))
    environment = {name: at for name, at in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--collect-only"]
    command += ["-p", "support.families.servers", "-p", "no:cacheprovider", "test_one.py"]
    collected = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "PYTHONPATH": str(TESTS)},
        timeout=60,
        check=True,
        capture_output=True,
        text=True,
    )
    lines = collected.stdout.splitlines()
    return [line.partition("::test_")[2] for line in lines if "::" in line]


def test_by_family(tmp_path: Path) -> None:
    """Each family's tests stand where its first is; others keep their order."""
    assert order(tmp_path, "servers") == BY_FAMILY


def test_as_written(tmp_path: Path) -> None:
    """A fixture of the same name that requests no server of the session changes nothing."""
    assert order(tmp_path, "tmp_path") == WRITTEN
