"""Runs inside the upload pod, sent as text: `python3 -c TEXT digests|receive DIRECTORY [BYTES]`.

Standard library only. `digests` prints the SHA-256 of every file there; `receive` reads a tar
stream of exactly BYTES bytes (the end of standard input does not come through a Kubernetes exec
stream), writes each file beside its place, renames it, and prints its digest.
"""

import hashlib
import io
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import IO

_CHUNK = 1 << 20


class _Limited(io.RawIOBase):
    """Exactly so many bytes of a stream, then its end."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        super().__init__()
        self._stream, self._left = stream, size

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(min(size, self._left) if size >= 0 else self._left)
        self._left -= len(block)
        return block


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def digests(root: Path) -> dict[str, str]:
    """Return relative path -> SHA-256 of every file below a directory."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): _digest(path) for path in files}


def receive(root: Path, size: int) -> dict[str, str]:
    """Unpack a tar stream of `size` bytes and return relative path -> SHA-256 of what is there."""
    received = {}
    source = _Limited(sys.stdin.buffer, size)
    with tarfile.open(fileobj=source, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is None or ".." in Path(member.name).parts:
                raise SystemExit(f"refused: {member.name}")
            _write(root / member.name, content)
            received[member.name] = _digest(root / member.name)
    while source.read(_CHUNK):  # padding behind the archive's end
        pass
    return received


def _write(target: Path, content: IO[bytes]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(target.name + ".uploading")
    with beside.open("wb") as file:
        while block := content.read(_CHUNK):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(target)


def main(command: str, directory: str, size: str = "0") -> None:
    """Run one command and print its answer as JSON."""
    root = Path(directory)
    answer = digests(root) if command == "digests" else receive(root, int(size))
    sys.stdout.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
