"""Files that arrive in pieces: digested and put on the disk while the next pieces come.

A fetch is as fast as the slowest of network, SHA-256 and disk only when the three work side by
side. hashlib and the system calls let go of the interpreter, so threads are enough.
"""

import hashlib
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeAlias

Piece: TypeAlias = bytes | memoryview

PIECE_BYTES = 1024 * 1024
"""Small enough that the allocator gives the same memory again: fresh pages for 16 MiB at a time
took a third of a fetch's processor time."""
MOST_WAITING = 32
"""Pieces that may wait for their digest: 32 MiB. Then who brings them waits."""
SYNC_BYTES = 64 * 1024 * 1024
"""Written before the flush to disk begins; one flush at the very end would leave the disk idle
first and delay the end."""


class BackgroundDigest:
    """SHA-256 of pieces, in order, in a thread of its own."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._thread = ThreadPoolExecutor(1, "digest")
        self._waiting: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def update(self, piece: Piece) -> None:
        """Take the next piece, which must not change any more."""
        self._submit(self._thread.submit(self._digest.update, piece))

    def update_from(self, path: Path) -> None:
        self._submit(self._thread.submit(self._read, path, path.stat().st_size))

    def hexdigest(self) -> str:
        """Wait for all pieces; return 64 hex digits."""
        while self._waiting:
            self._waiting.popleft().result()
        return self._digest.hexdigest()

    def _submit(self, taken: "Future[None]") -> None:
        self._waiting.append(taken)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popleft().result()

    def _read(self, path: Path, size: int) -> None:
        with path.open("rb") as reader:
            while size > 0 and (piece := reader.read(min(size, PIECE_BYTES))):
                self._digest.update(piece)
                size -= len(piece)


class ResumableFile:
    """A file that grows at its end; what an earlier process has left of it counts."""

    def __init__(self, path: Path) -> None:
        self._writer = path.open("ab")
        self._digest = BackgroundDigest()
        self._disk = ThreadPoolExecutor(1, "disk")
        self._syncing: Future[None] | None = None
        self._unsynced = 0
        self.resumed_bytes = self._writer.tell()
        """Bytes that were there before."""
        if self.resumed_bytes:
            self._digest.update_from(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._disk.shutdown()
        with self._digest:
            self._writer.close()

    def write(self, piece: Piece) -> None:
        """Append a piece, which must not change any more.

        Raises:
            OSError: this piece, or one before it, has no place on the disk.
        """
        self._writer.write(piece)
        self._digest.update(piece)
        self._unsynced += len(piece)
        if self._unsynced >= SYNC_BYTES and (self._syncing is None or self._syncing.done()):
            self._synced()
            self._syncing = self._disk.submit(os.fdatasync, self._writer.fileno())
            self._unsynced = 0

    def finish(self) -> str:
        """Wait until all of it is on the disk; return the SHA-256 of the complete file.

        Raises:
            OSError: some piece has no place on the disk.
        """
        self._writer.flush()
        self._synced()
        os.fsync(self._writer.fileno())
        return self._digest.hexdigest()

    def _synced(self) -> None:
        # The kernel reports a failed write-back to one flush only, so each result is checked.
        if self._syncing is not None:
            self._syncing.result()
