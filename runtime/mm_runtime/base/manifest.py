"""Reads and verifies the manifest: the one file that makes a directory an engine."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from mm_api.documents.engine_manifest import EngineFile, EngineManifest
from mm_runtime.base.documents import first_of
from mm_runtime.base.durable import sha256
from mm_runtime.errors import EngineCorruptError


def read(path: Path, expected: str | None = None) -> EngineManifest:
    """Return a manifest.

    `expected`: its SHA-256 as the build recorded it, 64 hex digits; None: not compared.

    Raises:
        EngineCorruptError: missing, not JSON, of another format version, or not the recorded one.
    """
    try:
        content = path.read_bytes()
        compare_recorded(content, expected, str(path))
        return EngineManifest.from_json(content)
    except FileNotFoundError as error:
        raise EngineCorruptError(
            f"{path} does not exist: the build of this engine has not finished, or the store is not"
            " the one it was built into."
        ) from error
    except ValidationError as error:
        raise EngineCorruptError(
            f"{path} is damaged or of another version: {first_of(error)}. The"
            " operator builds the engine again."
        ) from error


def compare_recorded(content: bytes, expected: str | None, where: str) -> None:
    """Compare a manifest with the digest that its build recorded; None: nothing was recorded.

    Raises:
        EngineCorruptError: the store holds another engine under this fingerprint, or other bytes.
    """
    found = hashlib.sha256(content).hexdigest()
    if expected is not None and found != expected:
        raise EngineCorruptError(
            f"{where} is not the manifest of the recorded build: sha256 {found}; expected"
            f" {expected}. The engine was replaced in the store, or its manifest was damaged; the"
            " operator verifies it again."
        )


def verify(
    directory: Path, manifest: EngineManifest, files: Sequence[EngineFile] | None = None
) -> None:
    """Compare files of an engine with its manifest: existence and size of all, then digests.

    `files`: those of the manifest that count; None: all.

    Raises:
        EngineCorruptError: names the first file that differs, and how.
    """
    advice = "The operator builds the engine again."
    compared = manifest.files if files is None else files
    for file in compared:
        path = directory / file.path
        if not path.is_file():
            raise EngineCorruptError(f"{path} is missing. {advice}")
        size = path.stat().st_size
        if size != file.size:
            raise EngineCorruptError(f"{path} has {size} bytes; expected {file.size}. {advice}")
    for file in compared:
        found = sha256(directory / file.path)
        if found != file.sha256:
            raise EngineCorruptError(
                f"{directory / file.path} is damaged: sha256 {found}; expected {file.sha256}."
                f" {advice}"
            )
