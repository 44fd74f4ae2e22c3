"""A checkpoint that lies elsewhere as a folder to plan from: configurations and headers alone.

Weights are not downloaded: of each safetensors file the header is read, by ranges.
"""

import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from mm_api.checkpoint.parts import JOINED, PROCESSOR
from mm_ctl.commands.checkpoint_folder import CONFIGS, INDEX
from mm_ctl.documents import UsageError

FILES_AT_A_TIME: Final = 8
MOST_FILES: Final = 1000
MOST_JSON_BYTES: Final = 64 * 1024 * 1024
MOST_HEADER_BYTES: Final = 100_000_000
"""The longest header that the safetensors format allows."""
FIRST_BYTES: Final = 256 * 1024
"""Read of a weight file at once: most headers are shorter."""
_LENGTH_BYTES = 8
_CONFIGURATIONS = frozenset({*CONFIGS, PROCESSOR, JOINED, INDEX})


class RemoteCheckpoint(Protocol):
    """Where a checkpoint lies; its text is the address. Errors are of `UsageError`."""

    def names(self) -> list[str]:
        """Return the names of its files at the top level."""

    def read(self, name: str, most: int, start: int = 0) -> bytes:
        """Return up to `most` bytes of a file, from an offset."""


@contextmanager
def remote_folder(source: RemoteCheckpoint) -> Iterator[Path]:
    """Give a folder with a checkpoint's configurations, and its weight files cut to their headers.

    Raises:
        UsageError: there is none, or it is not read; says what to do.
    """
    names = source.names()
    if len(names) > MOST_FILES:
        raise UsageError(f"{source} has {len(names)} files; expected {MOST_FILES} at most")
    with TemporaryDirectory(prefix="checkpoint-") as scratch:
        folder = Path(scratch)
        _write(folder, source, names)
        try:
            yield folder
        except UsageError as error:
            raise UsageError(str(error).replace(str(folder), str(source))) from error


def _write(folder: Path, source: RemoteCheckpoint, names: Iterable[str]) -> None:
    def write(name: str) -> None:
        if name.endswith(".safetensors"):
            content = _header(source, name)
        else:
            content = source.read(name, MOST_JSON_BYTES)
        (folder / name).write_bytes(content)

    wanted = [name for name in names if name.endswith(".safetensors") or name in _CONFIGURATIONS]
    with ThreadPoolExecutor(FILES_AT_A_TIME) as pool:
        list(pool.map(write, wanted))


def _header(source: RemoteCheckpoint, name: str) -> bytes:
    first = source.read(name, FIRST_BYTES)
    if len(first) < _LENGTH_BYTES:
        raise UsageError(f"{source}: {name} is not a safetensors file: it has {len(first)} bytes")
    (length,) = struct.unpack("<Q", first[:_LENGTH_BYTES])
    if length > MOST_HEADER_BYTES:
        raise UsageError(
            f"{source}: {name} is not a safetensors file: its header has {length} bytes"
        )
    size = _LENGTH_BYTES + length
    rest = size - len(first)
    return first[:size] if rest <= 0 else first + source.read(name, rest, len(first))
