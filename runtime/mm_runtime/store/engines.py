"""What a store of engines can do, whatever it is made of; and copying from one to another."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import PurePosixPath
from typing import Protocol

from pydantic import ValidationError

from mm_api.documents.engine_manifest import MANIFEST_NAME, EngineFile, EngineManifest
from mm_api.documents.server_state import Role
from mm_runtime.base.documents import first_of
from mm_runtime.base.needed_files import needed_files
from mm_runtime.base.resumable_file import BackgroundDigest, Piece
from mm_runtime.errors import EngineCorruptError

FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class EngineStore(Protocol):
    """A place with engines, each under its fingerprint."""

    def fingerprints(self) -> list[str]:
        """Return the fingerprints of all engines, complete or not, sorted."""

    def manifest(self, fingerprint: str) -> bytes:
        """Return the bytes of a manifest; EngineCorruptError: not finished, or half removed."""

    def sizes(self, fingerprint: str, manifest: EngineManifest) -> dict[str, int]:
        """Return path -> bytes of what lies there, the manifest left out."""

    def chunks(self, fingerprint: str, file: EngineFile) -> Iterator[Piece]:
        """Yield the bytes of a file; EngineCorruptError: the file is missing."""

    def put(
        self, fingerprint: str, manifest: bytes, files: Iterable[tuple[EngineFile, Iterable[Piece]]]
    ) -> None:
        """Take an engine: it becomes visible with all of its files, or not at all.

        Raises:
            EngineBusyError: it is being built now.
            EngineCorruptError: other bytes came than the manifest says.
        """

    def unused_since(self, fingerprint: str) -> datetime | None:
        """Return since when no model needs an engine; None when nothing was noted."""

    def note_unused(self, fingerprint: str, since: datetime) -> None:
        """Note since when no model needs an engine."""

    def used(self, fingerprint: str) -> None:
        """Forget that no model needed an engine."""

    def remove_unused(self, fingerprint: str, before: datetime) -> bool:
        """Remove an engine that was not needed since; False when a model needs it again.

        Raises:
            EngineBusyError: it is being built now.
        """

    def remove(self, fingerprint: str) -> None:
        """Remove an engine, its manifest first; EngineBusyError: it is being built now."""


def parse_manifest(content: bytes, fingerprint: str, where: str) -> EngineManifest:
    """Return a manifest that was read from under a fingerprint.

    Raises:
        EngineCorruptError: no manifest, of another engine, or with paths that lead out of it.
    """
    try:
        manifest = EngineManifest.from_json(content)
    except ValidationError as error:
        raise EngineCorruptError(
            f"{where}: {MANIFEST_NAME} is damaged or of another version: {first_of(error)}."
        ) from error
    if manifest.fingerprint != fingerprint:
        raise EngineCorruptError(
            f"{where}: {MANIFEST_NAME} is of another engine, {manifest.fingerprint[:12]}."
        )
    for file in manifest.files:
        path = PurePosixPath(file.path)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise EngineCorruptError(
                f"{where}: {MANIFEST_NAME} names {file.path!r}, which lies outside of the engine."
            )
    return manifest


def checked(file: EngineFile, chunks: Iterable[Piece], where: str) -> Iterator[Piece]:
    """Yield the bytes of a file, then compare them with the manifest: EngineCorruptError."""
    size = 0
    with BackgroundDigest() as digest:
        for chunk in chunks:
            size += len(chunk)
            digest.update(chunk)
            yield chunk
        compare(file, size, digest.hexdigest(), where)


def compare(file: EngineFile, size: int, sha256: str, where: str) -> None:
    if size != file.size:
        raise EngineCorruptError(f"{where}: {file.path} has {size} bytes; expected {file.size}.")
    if sha256 != file.sha256:
        raise EngineCorruptError(
            f"{where}: {file.path} is damaged: sha256 {sha256}; expected {file.sha256}."
        )


def copy_engine(
    source: EngineStore, fingerprint: str, target: EngineStore, role: Role = Role.SERVER
) -> EngineManifest:
    """Copy an engine, or what a pod of a role opens of it.

    Every byte is compared with the manifest on its way; the manifest names all files either way.

    Raises:
        EngineCorruptError: the source's engine is damaged; the target is as it was.
    """
    content = source.manifest(fingerprint)
    manifest = parse_manifest(content, fingerprint, str(source))
    needed = needed_files(manifest.files, role)
    target.put(fingerprint, content, ((one, source.chunks(fingerprint, one)) for one in needed))
    return manifest


def problems(store: EngineStore, fingerprint: str, *, role: Role = Role.SERVER) -> list[str]:
    """Return everything that is wrong with an engine, the worst first; empty: it is complete.

    `role`: Of the pod that it must be complete for; files that others open may be missing.
    """
    try:
        where = f"engine {fingerprint[:12]}"
        manifest = parse_manifest(store.manifest(fingerprint), fingerprint, where)
    except EngineCorruptError as error:
        return [str(error)]
    sizes = store.sizes(fingerprint, manifest)
    found = []
    needed = {file.path for file in needed_files(manifest.files, role)}
    for file in manifest.files:
        size = sizes.pop(file.path, None)
        if file.path not in needed:
            continue
        if size is None:
            found.append(f"{file.path} is missing.")
        elif size != file.size:
            found.append(f"{file.path} has {size} bytes; expected {file.size}.")
        else:
            found += _damage(store, fingerprint, file)
    return [*found, *(f"{path} is not in the manifest." for path in sorted(sizes))]


def _damage(store: EngineStore, fingerprint: str, file: EngineFile) -> list[str]:
    try:
        for _ in checked(file, store.chunks(fingerprint, file), fingerprint[:12]):
            pass
    except EngineCorruptError as error:
        return [str(error).partition(": ")[2]]
    return []
