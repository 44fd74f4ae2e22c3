"""Regions in /dev/shm that a killed server leaves behind: 1 MiB and more for each model."""

import logging
from pathlib import Path

log = logging.getLogger(__name__)

SHM = Path("/dev/shm")  # noqa: S108 (the kernel's own, not a temporary file)


def remove_regions(prefix: str, directory: Path = SHM) -> int:
    """Remove every region with this server's prefix; return how many there were.

    Only when no server of this prefix runs: it would lose the memory its models talk through.
    """
    removed = 0
    for path in directory.glob(f"{prefix}*"):
        path.unlink(missing_ok=True)
        removed += 1
    if removed:
        log.info("removed %d shared-memory regions of an earlier server", removed)
    return removed
