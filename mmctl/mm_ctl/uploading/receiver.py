"""Runs inside the upload pod, sent as text: `python3 -c TEXT digests|receive DIRECTORY`.

Standard library only. `digests` prints the SHA-256 of every file there; `receive` reads a tar
stream, writes each file beside its place, renames it, and prints its digest.
"""

import hashlib
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import IO

_CHUNK = 1 << 20


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


def receive(root: Path) -> dict[str, str]:
    """Unpack a tar stream and return relative path -> SHA-256 of what is there."""
    received = {}
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is None or ".." in Path(member.name).parts:
                raise SystemExit(f"refused: {member.name}")
            _write(root / member.name, content)
            received[member.name] = _digest(root / member.name)
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


def main(command: str, directory: str) -> None:
    root = Path(directory)
    answer = digests(root) if command == "digests" else receive(root)
    sys.stdout.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
