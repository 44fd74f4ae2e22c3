"""A file that arrives in pieces has its bytes in order, on the disk, and its digest at once."""

import errno
import hashlib
import os
import random
from pathlib import Path

import pytest

from mm_runtime.base import resumable_file
from mm_runtime.base.resumable_file import ResumableFile
from support.cases import cases

PIECES = [random.Random(number).randbytes(977) for number in range(200)]  # noqa: S311 (no secret)
"""More than may wait for their digest."""


@cases(
    "pieces",
    {
        "none": [],
        "empty": [b""],
        "one": PIECES[:1],
        "many": PIECES,
        "views": [memoryview(piece) for piece in PIECES],
    },
)
@cases("kept", {"new": b"", "resumed": b"kept"})
def test_digest_is_of_the_entire_file(
    pieces: list[bytes], kept: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumable_file, "SYNC_BYTES", 5_000)
    path = tmp_path / "file"
    path.write_bytes(kept)
    with ResumableFile(path) as file:
        resumed_bytes = file.resumed_bytes
        for piece in pieces:
            file.write(piece)
        digest = file.finish()
    complete = kept + b"".join(pieces)
    assert (len(kept), complete) == (resumed_bytes, path.read_bytes())
    assert hashlib.sha256(complete).hexdigest() == digest


def test_failed_flush_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reports a lost page to one flush only: an early one that failed fails the file."""

    def broken(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(resumable_file, "SYNC_BYTES", 1)
    monkeypatch.setattr(os, "fdatasync", broken)
    with ResumableFile(tmp_path / "file") as file:
        file.write(b"lost")
        with pytest.raises(OSError, match="Input/output error"):
            file.finish()


def test_what_came_before_an_error_is_kept(tmp_path: Path) -> None:
    with ResumableFile(tmp_path / "file") as file:
        file.write(b"first")
    assert (tmp_path / "file").read_bytes() == b"first"
