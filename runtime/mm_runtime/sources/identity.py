r"""Identity of a checkpoint: which of its files count, and one digest over them.

The inspect Job computes it, the build's fetch step computes it again over what it copied: an engine
is never built from files other than those that were planned for.

Definition, version 1: SHA-256 over one line a file, sorted by name, `name \0 size \0 content \n`,
where content is the SHA-256 of the file's
- bytes, for files up to `SMALL_BYTES`;
- first `BLOCK_BYTES`, last `BLOCK_BYTES` and `BLOCKS` blocks at equal distances between, for larger
  ones; a safetensors file's header, which lists every tensor, is read completely besides.

Reading 14 GB from a network disk takes minutes and happens in the build anyway (the manifest holds
full digests); inspect must take seconds. A sampled digest misses a change only when it keeps size,
header and every sampled block: not an accident, and a malicious writer of the volume could replace
the file after any check.
"""

import hashlib
import json
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mm_api.checkpoint.weight_files import without_copies
from mm_runtime.base.chat_template_files import NAMED_FOLDER
from mm_runtime.base.containment import check_contained, open_contained

VERSION = b"multimodal-source-1\n"
SMALL_BYTES = 8 * 1024 * 1024
BLOCK_BYTES = 64 * 1024
BLOCKS = 30
INDEX_LIMIT_BYTES = 64 * 1024 * 1024
"""Read of an index; the largest of public checkpoints are about 10 MB."""
HEADER_LIMIT_BYTES = 100_000_000
"""Largest header the safetensors format allows; a longer one is not a header."""

SUFFIXES = frozenset({".json", ".safetensors", ".bin", ".pt", ".model", ".txt", ".jinja", ".py"})
"""What a build can use. READMEs, licences and images may change without a new engine."""


PARTS = ("llm", "mm_projector", "vision_tower")
"""VILA keeps a checkpoint in each of these folders. Other folders count for nothing: repositories
also hold the same weights in other formats (`original/`, `onnx/`). Of several copies in one folder
`mm_api.checkpoint.weight_files` says which counts."""


def source_files(source: Path) -> dict[str, Path]:
    """Return name -> path of the files that make up a checkpoint, none of them hidden.

    Those of the top level come first, then `llm/config.json` and so on where there are such parts.

    Raises:
        SourceEscapesError: a link leads out of the claim; the message names it.
    """
    check_contained(source)
    parts = (source / part for part in (*PARTS, NAMED_FOLDER))
    folders = [source, *(part for part in parts if part.is_dir())]
    found = (path for folder in folders for path in sorted(folder.iterdir()))
    files = {path.relative_to(source).as_posix(): path for path in found if path.is_file()}

    def read(name: str) -> bytes:
        check_contained(files[name])
        with open_contained(files[name]) as file:
            return file.read(INDEX_LIMIT_BYTES)

    chosen = {name: files[name] for name in chosen_files(files, read)}
    for path in chosen.values():
        check_contained(path)
    return chosen


def chosen_files(names: Iterable[str], read: Callable[[str], bytes]) -> list[str]:
    """Return the names that make up a checkpoint, with slashes: without other copies of weights."""
    folders: dict[str, dict[str, str]] = defaultdict(dict)
    for name in filter(_is_source_file, names):
        folder, _, last = name.rpartition("/")
        folders[folder][last] = name
    return [
        inside[last]
        for inside in folders.values()
        for last in sorted(without_copies(inside, lambda one: _parsed(read(inside[one]))))  # noqa: B023 (called at once)
    ]


def _parsed(content: bytes) -> dict[str, Any]:
    """Return an index; empty where it is none, which inspection refuses by name."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_source_file(name: str) -> bool:
    """Return whether a file counts, by its name relative to the checkpoint, with slashes."""
    path = PurePosixPath(name)
    if path.parent.as_posix() == NAMED_FOLDER:
        return path.suffix == ".jinja"
    placed = len(path.parts) == 1 or (len(path.parts) == 2 and path.parts[0] in PARTS)  # noqa: PLR2004
    return placed and path.suffix in SUFFIXES and not path.name.startswith(".")


def source_digest(source: Path) -> str:
    """Return the digest of a checkpoint's directory, `sha256:` and 64 hex digits."""
    return files_digest(source_files(source))


def files_digest(files: Mapping[str, Path]) -> str:
    """Return the digest of files by their names in the checkpoint, wherever they lie now."""
    total = hashlib.sha256(VERSION)
    for name in sorted(files):
        path = files[name]
        size = path.stat().st_size
        total.update(f"{name}\0{size}\0{_content(path, size)}\n".encode())
    return f"sha256:{total.hexdigest()}"


def blocks(size: int) -> tuple[tuple[int, int], ...]:
    """Return offset and length of the blocks that are read of a file above `SMALL_BYTES`."""
    span = size - BLOCK_BYTES
    return tuple((span * number // (BLOCKS + 1), BLOCK_BYTES) for number in range(BLOCKS + 2))


def header_bytes(beginning: bytes) -> int:
    """Return the length of a safetensors header, its length field included; 0 when it is none."""
    (length,) = struct.unpack("<Q", beginning[:8])
    return 8 + length if length <= HEADER_LIMIT_BYTES else 0


def _content(path: Path, size: int) -> str:
    with open_contained(path) as file:
        if size <= SMALL_BYTES:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256()
        if path.suffix == ".safetensors":
            length = min(header_bytes(file.read(8)), size)
            file.seek(0)
            digest.update(file.read(length))
        for start, length in blocks(size):
            file.seek(start)
            digest.update(file.read(length))
        return digest.hexdigest()
