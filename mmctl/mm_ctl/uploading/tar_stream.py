"""Files as a tar stream of known length, made block by block."""

import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

_BLOCK = tarfile.BLOCKSIZE
_CHUNK = 128 * 1024
"""Bytes in one message of an exec stream."""


class TarStream:
    """A tar archive of some files of a directory. `size` is exact before anything is read."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        self._directory = directory
        self._entries = [self._entry(name) for name in names]
        self.size = sum(len(head) + _padded(size) for _, head, size in self._entries) + 2 * _BLOCK

    def __iter__(self) -> Iterator[bytes]:
        """Yield the archive.

        Raises:
            OSError: a file went away or changed its size meanwhile.
        """
        for path, head, size in self._entries:
            yield head
            yield from _content(path, size)
            yield b"\0" * (_padded(size) - size)
        yield b"\0" * (2 * _BLOCK)

    def _entry(self, name: str) -> tuple[Path, bytes, int]:
        path = self._directory / name
        member = tarfile.TarInfo(name)
        member.size = path.stat().st_size
        member.mode = 0o644
        return path, member.tobuf(tarfile.PAX_FORMAT), member.size


def _content(path: Path, size: int) -> Iterator[bytes]:
    left = size
    with path.open("rb", buffering=io.DEFAULT_BUFFER_SIZE) as file:
        while left:
            block = file.read(min(_CHUNK, left))
            if not block:
                raise OSError(f"{path} became shorter while it was sent")
            left -= len(block)
            yield block


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
