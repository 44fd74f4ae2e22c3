"""Removes what builds have left and none will resume: the model may have changed since."""

import logging
import shutil
from pathlib import Path

from mm_runtime.engine_build.lock import tried

log = logging.getLogger(__name__)

KEPT_SECONDS = 24 * 3600.0
"""A failed build is retried within hours; its copy of the checkpoint is worth keeping that long."""


def remove_abandoned(work: Path, locks: Path, *, now: float) -> None:
    """Remove old working directories whose lock no process holds; `now` by the store's clock."""
    for directory in work.iterdir():
        try:
            age = now - _touched(directory)
        except FileNotFoundError:  # its build has just finished
            continue
        if age < KEPT_SECONDS:
            continue
        with tried(locks / directory.name.partition(".")[0]) as held:
            if held:
                log.info("removing %s, abandoned for %.0f h", directory, age / 3600)
                shutil.rmtree(directory, ignore_errors=True)


def _touched(directory: Path) -> float:
    journal = directory / "journal.json"
    return (journal if journal.exists() else directory).stat().st_mtime
