"""The packages of another commit, to be measured in turn with this checkout's."""

import os
import subprocess
from pathlib import Path

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
