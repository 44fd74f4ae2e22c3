"""A hollow copy of a remote checkpoint: every name and size, and the bytes that identify it.

Files that inspect reads completely are fetched; of weights the header and the sampled blocks of
`mm_runtime.sources.identity` are. The rest are holes, which read as zeros and take no disk. So
whatever works on a directory works on a checkpoint of 140 GB that is not downloaded.
"""

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from mm_runtime.errors import SourceNotFoundError
from mm_runtime.sources.identity import (
    HEADER_LIMIT_BYTES,
    INDEX_LIMIT_BYTES,
    SMALL_BYTES,
    blocks,
    chosen_files,
    header_bytes,
)
from mm_runtime.sources.remote import RemoteFile, RemoteSource

log = logging.getLogger(__name__)

FIRST_BYTES = 256 * 1024
"""Read of a weight file at once: most headers are shorter."""
READ_FULLY = frozenset({".json", ".model", ".txt", ".jinja", ".py"})
"""Not weights: a tokenizer.json may have 20 MB and is parsed by inspect."""
REQUESTS_AT_A_TIME = 8


def wanted_files(source: RemoteSource) -> list[RemoteFile]:
    """Return the files that a build could use; READMEs and images stay where they are.

    Raises:
        SourceNotFoundError: there is none, or a name would leave the checkpoint's directory.
    """
    files = {file.name: file for file in source.files()}
    for name in files:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise SourceNotFoundError(
                f"{source.address} names the file {name!r}, which lies outside of it."
            )
    chosen = chosen_files(files, lambda name: source.read(files[name], 0, INDEX_LIMIT_BYTES))
    wanted = [files[name] for name in sorted(chosen)]
    if not wanted:
        raise SourceNotFoundError(
            f"{source.address} holds no checkpoint: no config.json and no weights."
        )
    return wanted


def write_hollow(files: Iterable[RemoteFile], directory: Path) -> None:
    """Make every file with its size and without content."""
    for file in files:
        path = directory / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as writer:
            writer.truncate(file.size)


def write_mirror(source: RemoteSource, files: Iterable[RemoteFile], directory: Path) -> None:
    """Make a hollow copy whose digest is that of the full checkpoint."""
    chosen = list(files)
    write_hollow(chosen, directory)
    with ThreadPoolExecutor(REQUESTS_AT_A_TIME) as pool:
        sampled = [file for file in chosen if not _is_read_fully(file)]
        headers = pool.map(lambda file: _header_ranges(source, file, directory), sampled)
        jobs = [(file, 0, file.size) for file in chosen if _is_read_fully(file)]
        for file, ranges in zip(sampled, headers, strict=True):
            jobs += [(file, start, length) for start, length in (*ranges, *blocks(file.size))]
        for _ in pool.map(lambda job: _copy(source, directory, *job), jobs):
            pass
    read = sum(length for _, _, length in jobs)
    total = sum(file.size for file in chosen)
    log.info("%s: read %d of %d MiB", source.address, read >> 20, total >> 20)


def _is_read_fully(file: RemoteFile) -> bool:
    return file.size <= SMALL_BYTES or PurePosixPath(file.name).suffix in READ_FULLY


def _header_ranges(
    source: RemoteSource, file: RemoteFile, directory: Path
) -> list[tuple[int, int]]:
    """Write the beginning of a weight file; return what of its header is still missing."""
    if not file.name.endswith(".safetensors"):
        return []
    first = source.read(file, 0, FIRST_BYTES)
    _write(directory / file.name, 0, first)
    length = header_bytes(first)
    if length <= len(first) or length > min(file.size, HEADER_LIMIT_BYTES + 8):
        return []
    return [(len(first), length - len(first))]


def _copy(source: RemoteSource, directory: Path, file: RemoteFile, start: int, length: int) -> None:
    _write(directory / file.name, start, source.read(file, start, length))


def _write(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as writer:
        writer.seek(start)
        writer.write(content)
