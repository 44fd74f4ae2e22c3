"""Files that survive a kill: complete or absent, and known by their digest."""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mm_runtime.errors import StoreNotWritableError

NOT_WRITABLE = frozenset({errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM, errno.EDQUOT})


def unfinished(path: Path) -> Path:
    """Return where a file grows before it is complete; a killed process leaves it there."""
    return path.with_name(f".{path.name}.new")


def write_durably(path: Path, content: str | bytes) -> None:
    """Write a file beside its place and rename it there, synced to disk."""
    beside = unfinished(path)
    with beside.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make renames inside a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def writing_to(store: Path) -> Iterator[None]:
    """Turn the errors of a full or read-only store into one that says so.

    Raises:
        StoreNotWritableError: no space, no quota, read-only, or no permission.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in NOT_WRITABLE:
            raise
        raise StoreNotWritableError(
            f"The store at {store} cannot be written: {error.strerror} ({error.filename or store})."
            f" Free {free_bytes(store)} bytes. Make room, or make it writable for user"
            f" {os.getuid()}."
        ) from error


def free_bytes(store: Path) -> int:
    """Return the bytes an ordinary user may still write; 0 when even that is not known."""
    try:
        state = os.statvfs(store)
    except OSError:
        return 0
    return state.f_bavail * state.f_frsize
