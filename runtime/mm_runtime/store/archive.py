"""Engines as one archive in the OCI image layout, so that they travel like images.

An engine becomes an OCI artifact as ORAS writes them: an image manifest of our artifact type, whose
layers are the engine's files, each with its path as title. Blobs are named by SHA-256, which is
what an engine's manifest holds: nothing is digested for the archive that was not before. See
https://github.com/opencontainers/image-spec/blob/main/image-layout.md.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mm_api.documents.engine_manifest import MANIFEST_NAME
from mm_runtime.base.resumable_file import PIECE_BYTES, Piece
from mm_runtime.errors import EngineCorruptError, PermanentError
from mm_runtime.store.engines import (
    FINGERPRINT,
    EngineStore,
    checked,
    parse_manifest,
    problems,
)

ARTIFACT = "application/vnd.multimodal.engine.v1"
FILE = "application/vnd.multimodal.engine.file.v1"
IMAGE_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
TITLE = "org.opencontainers.image.title"
REFERENCE = "org.opencontainers.image.ref.name"
LAYOUT = "oci-layout"
INDEX = "index.json"

SMALL_BYTES = 64 * 1024 * 1024
"""Largest JSON document that is read from an archive."""


def export(store: EngineStore, fingerprints: Sequence[str], path: Path) -> int:
    """Write engines into one archive, under its name only when it is complete.

    Returns:
        Its bytes.

    Raises:
        EngineCorruptError: an engine is damaged; no archive is left.
    """
    beside = path.with_name(f".{path.name}.new")
    written: set[str] = set()
    try:
        with tarfile.open(beside, "w", format=tarfile.PAX_FORMAT) as archive:

            def add(content: bytes) -> dict[str, Any]:
                digest = hashlib.sha256(content).hexdigest()
                if digest not in written:
                    _add(archive, f"blobs/sha256/{digest}", io.BytesIO(content), len(content))
                    written.add(digest)
                return {"digest": f"sha256:{digest}", "size": len(content)}

            entries = [_export(store, one, archive, written, add) for one in fingerprints]
            index = {"schemaVersion": 2, "manifests": entries}
            _add_json(archive, LAYOUT, {"imageLayoutVersion": "1.0.0"})
            _add_json(archive, INDEX, index)
        beside.rename(path)
    finally:
        beside.unlink(missing_ok=True)
    return path.stat().st_size


def _export(
    store: EngineStore,
    fingerprint: str,
    archive: tarfile.TarFile,
    written: set[str],
    add: Callable[[bytes], dict[str, Any]],
) -> dict[str, Any]:
    content = store.manifest(fingerprint)
    manifest = parse_manifest(content, fingerprint, str(store))
    layers = [{"mediaType": FILE, **add(content), "annotations": {TITLE: MANIFEST_NAME}}]
    for file in manifest.files:
        if file.sha256 not in written:
            source = checked(file, store.chunks(fingerprint, file), f"engine {fingerprint[:12]}")
            _add(archive, f"blobs/sha256/{file.sha256}", _Reader(source), file.size)
            written.add(file.sha256)
        layers.append(
            {
                "mediaType": FILE,
                "digest": f"sha256:{file.sha256}",
                "size": file.size,
                "annotations": {TITLE: file.path},
            }
        )
    image = {
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "artifactType": ARTIFACT,
        "config": {"mediaType": EMPTY, **add(b"{}")},
        "layers": layers,
        "annotations": {"org.opencontainers.image.created": manifest.created.isoformat()},
    }
    return {
        "mediaType": IMAGE_MANIFEST,
        "artifactType": ARTIFACT,
        **add(_json(image)),
        "annotations": {REFERENCE: fingerprint},
    }


def import_(store: EngineStore, path: Path) -> list[tuple[str, bool]]:
    """Put the engines of an archive into a store.

    Returns:
        Fingerprint and whether it was new, for each engine of the archive.

    Raises:
        PermanentError: no such archive.
        EngineCorruptError: a blob is missing or damaged; that engine is not there.
    """
    with _opened(path) as archive:
        index = _read_json(archive, INDEX)
        found = [
            entry
            for entry in index.get("manifests", [])
            if isinstance(entry, dict) and entry.get("artifactType") == ARTIFACT
        ]
        if not found:
            raise PermanentError(
                f"{path} holds no engine; expected an archive of `mm-runtime store export`."
            )
        return [_import(store, archive, entry) for entry in found]


def _import(
    store: EngineStore, archive: tarfile.TarFile, entry: dict[str, Any]
) -> tuple[str, bool]:
    fingerprint = str((entry.get("annotations") or {}).get(REFERENCE, ""))
    if FINGERPRINT.fullmatch(fingerprint) is None:
        raise PermanentError(f"{_name(archive)}: {fingerprint!r} is not an engine's fingerprint.")
    image = _read_json(archive, _blob(entry))
    layers = {
        layer["annotations"][TITLE]: layer
        for layer in image.get("layers", [])
        if isinstance(layer, dict) and TITLE in (layer.get("annotations") or {})
    }
    if MANIFEST_NAME not in layers:
        raise EngineCorruptError(f"{_name(archive)}: {fingerprint[:12]} has no {MANIFEST_NAME}.")
    layer = layers[MANIFEST_NAME]
    content = b"".join(_chunks(archive, _blob(layer), SMALL_BYTES))
    if hashlib.sha256(content).hexdigest() != _digest(layer):
        raise EngineCorruptError(
            f"{_name(archive)}: {MANIFEST_NAME} of {fingerprint[:12]} is damaged."
        )
    manifest = parse_manifest(content, fingerprint, _name(archive))
    if not problems(store, fingerprint, digests=False):
        return fingerprint, False
    with store.receive(fingerprint) as incoming:
        for file in manifest.files:
            incoming.add(file, _chunks(archive, f"blobs/sha256/{file.sha256}", file.size))
        incoming.finish(content)
    return fingerprint, True


class _Reader(io.RawIOBase):
    """Chunks as the file that tarfile wants to read from."""

    def __init__(self, chunks: Iterable[Piece]) -> None:
        self._chunks = iter(chunks)
        self._left = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; fewer than requested only at the end."""
        parts: list[bytes] = []
        while size > 0:
            if not self._left:
                following = next(self._chunks, None)
                if following is None:
                    break
                self._left = memoryview(following)
            part, self._left = self._left[:size], self._left[size:]
            parts.append(bytes(part))
            size -= len(part)
        return b"".join(parts)


def _add(archive: tarfile.TarFile, name: str, content: io.IOBase, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    entry.mode = 0o644
    try:
        archive.addfile(entry, content)
        content.read(1)  # lets `checked` compare: it does so after the last byte
    except OSError as error:
        if error.errno is not None:
            raise
        raise EngineCorruptError(f"{name} is shorter than the manifest says.") from error


def _add_json(archive: tarfile.TarFile, name: str, value: dict[str, Any]) -> None:
    content = _json(value)
    _add(archive, name, io.BytesIO(content), len(content))


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        archive = tarfile.open(path, "r:")  # noqa: SIM115 (closed below; opening has errors of its own)
    except FileNotFoundError as error:
        raise PermanentError(f"{path} does not exist.") from error
    except tarfile.TarError as error:
        raise PermanentError(f"{path} is not a tar archive: {error}.") from error
    with archive:
        try:
            yield archive
        except tarfile.ReadError as error:
            raise EngineCorruptError(f"{path} is cut or damaged: {error}.") from error


def _read_json(archive: tarfile.TarFile, name: str) -> dict[str, Any]:
    content = b"".join(_chunks(archive, name, SMALL_BYTES))
    try:
        value = json.loads(content)
    except ValueError as error:
        raise EngineCorruptError(f"{_name(archive)}: {name} is not JSON.") from error
    if not isinstance(value, dict):
        raise EngineCorruptError(f"{_name(archive)}: {name} is not a JSON object.")
    return value


def _chunks(archive: tarfile.TarFile, name: str, limit: int) -> Iterator[Piece]:
    try:
        member = archive.getmember(name)
        reader = archive.extractfile(member)
    except KeyError as error:
        raise EngineCorruptError(f"{_name(archive)}: {name} is missing.") from error
    if reader is None or member.size > limit:
        raise EngineCorruptError(f"{_name(archive)}: {name} is not a file of <= {limit} bytes.")
    while chunk := reader.read(PIECE_BYTES):
        yield chunk


def _name(archive: tarfile.TarFile) -> str:
    return str(archive.name)


def _digest(descriptor: dict[str, Any]) -> str:
    digest = str(descriptor.get("digest", "")).removeprefix("sha256:")
    if FINGERPRINT.fullmatch(digest) is None:
        raise EngineCorruptError(f"{digest!r} is not an SHA-256.")
    return digest


def _blob(descriptor: dict[str, Any]) -> str:
    return f"blobs/sha256/{_digest(descriptor)}"
