"""Locks that are files, held by the owner of the descriptor, and that can be deleted safely."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path


def acquire(path: Path, *, wait: bool) -> int | None:
    """Lock a file, making it and its directory if needed.

    Args:
        path: The lock file.
        wait: Whether to wait for another holder's end.

    Returns:
        The descriptor that holds the lock; None when another process has it and we do not wait.
    """
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:  # the directory was removed in between
            continue
        except FileExistsError:  # the same, between two steps of mkdir
            if path.parent.is_file():
                raise
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is_named(descriptor, path):
            return descriptor
        # The former holder deleted the file while we waited: what we hold locks no process out.
        os.close(descriptor)


def delete(path: Path, descriptor: int, top: Path) -> None:
    """Delete a lock file that we hold, give the lock back, and remove empty directories.

    Args:
        path: The lock file.
        descriptor: Holds its lock; closed.
        top: The highest directory that may go when it is empty.
    """
    path.unlink(missing_ok=True)
    os.close(descriptor)
    remove_empty(path.parent, top)


def remove_empty(directory: Path, top: Path) -> None:
    """Remove a directory and those above it, up to ``top``, as long as they are empty."""
    with suppress(OSError):  # not empty, or gone
        while directory.is_relative_to(top):
            directory.rmdir()
            directory = directory.parent


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    held = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
