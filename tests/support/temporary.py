"""Temporary files of a test session: in one folder, which goes with the session.

Builders, servers and workers that tests kill cannot remove their own. The folder is every process's
``TMPDIR``; tests' ``tmp_path`` stays where pytest keeps the last three. A session that was killed
itself leaves its folder to the next one, which sees by the lock that no session has it.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

PREFIX = "mm-tests-"
SERVER = "tritonserver"
STUBS = "python_env_*"
"""Triton's python backend makes one in /tmp for each server, whatever ``TMPDIR`` says, and removes
it when the server ends by itself. It is empty: no model here packs an environment of its own."""

PRECISION_SECONDS = 2.0
"""Of a process's start, which the kernel counts from a boot time in entire seconds."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make the session's folder; workers of pytest-xdist inherit it."""
    if hasattr(config, "workerinput"):
        return
    root = Path(tempfile.gettempdir())
    _remove_folders_of_the_killed(root)
    folder, lock = _locked_folder(root)
    before = {name: os.environ.get(name) for name in ("PYTEST_DEBUG_TEMPROOT", "TMPDIR")}
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(root))
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)

    def remove() -> None:
        tempfile.tempdir = None
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)  # what still runs may write while it goes
        os.close(lock)
        for stub in _stubs_of_the_dead():
            with suppress(OSError):
                stub.rmdir()

    config.add_cleanup(remove)


def _locked_folder(root: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        with suppress(OSError):  # another session that starts took it for one of the killed
            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder.chmod(0o1777)  # as the folder it stands for: tests start other users' processes
            return folder, lock


def _remove_folders_of_the_killed(root: Path) -> None:
    for folder in root.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another session has it, or removes it now
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _stubs_of_the_dead() -> Iterator[Path]:
    """Yield those that no server that runs can have made: all started later."""
    earliest = min(_starts_of_servers(), default=time.time() + PRECISION_SECONDS)
    for stub in Path("/tmp").glob(STUBS):
        with suppress(OSError):
            if stub.stat().st_mtime < earliest - PRECISION_SECONDS:
                yield stub


def _starts_of_servers() -> Iterator[float]:
    for process in psutil.process_iter(("name", "create_time")):
        if process.info["name"] == SERVER:
            yield process.info["create_time"]
