"""The packages of another commit, to be measured in turn with this checkout's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("crds", "edge", "runtime")
ARCHIVE_SECONDS = 300


def checked_out(commit: str, folder: Path) -> Path:
    """Return a folder with the packages of a commit."""
    command = ["git", "-C", str(ROOT), "archive", commit, *PACKAGES]
    done = subprocess.run(command, capture_output=True, timeout=ARCHIVE_SECONDS, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=done.stdout, check=True)
    return folder


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment of a process that imports the packages of a checkout."""
    path = os.pathsep.join(str(checkout / package) for package in PACKAGES)
    return {**os.environ, "PYTHONPATH": path}


@contextmanager
def started(checkout: Path, program: str, *words: str) -> Iterator[tuple[psutil.Process, int]]:
    """Run a program of this folder with a checkout's packages until the block ends.

    Yields:
        Its process, and the port that it prints first.
    """
    command = [sys.executable, str(Path(__file__).parent / program), *words]
    of_checkout = environment(checkout)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=of_checkout) as process:
        assert process.stdout is not None
        try:
            yield psutil.Process(process.pid), int(process.stdout.readline())
        finally:
            process.terminate()
