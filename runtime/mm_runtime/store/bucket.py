"""A store in an S3 bucket.

`engines/<fingerprint>/manifest.json`, and each file once as `engines/<fingerprint>/blobs/<sha256>`:
two builders of one fingerprint may upload side by side and can never mix their bytes, whatever
their clocks say. The manifest comes last; with it the engine is complete.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime

import obstore
from obstore.exceptions import AlreadyExistsError, NotFoundError

from mm_api.documents.engine_manifest import MANIFEST_NAME, EngineFile, EngineManifest
from mm_runtime.base.buckets import STORE_ERRORS, explained, open_bucket, parts, pieces
from mm_runtime.base.resumable_file import Piece
from mm_runtime.errors import EngineCorruptError
from mm_runtime.sources.address import BucketAddress
from mm_runtime.store.engines import FINGERPRINT, checked, parse_manifest

BLOBS = "blobs"
UNUSED = "unused"
"""Object that says since when no model needs an engine."""


class BucketStore:
    """Engines below a prefix of a bucket."""

    def __init__(
        self, address: BucketAddress, environment: Mapping[str, str] | None = None
    ) -> None:
        self._address = address
        self._client = open_bucket(address.bucket, "STORE", environment)

    def __str__(self) -> str:
        return str(self._address)

    def fingerprints(self) -> list[str]:
        with explained(str(self), STORE_ERRORS):
            found = obstore.list_with_delimiter(self._client, f"{self._address.key('engines')}/")
        names = (str(prefix).rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])
        return sorted(name for name in names if FINGERPRINT.fullmatch(name))

    def manifest(self, fingerprint: str) -> bytes:
        key = self._key(fingerprint, MANIFEST_NAME)
        with explained(str(self), STORE_ERRORS):
            try:
                return bytes(obstore.get(self._client, key).bytes())
            except (FileNotFoundError, NotFoundError) as error:
                raise EngineCorruptError(
                    f"{self}/engines/{fingerprint} has no manifest."
                ) from error

    def sizes(self, fingerprint: str, manifest: EngineManifest) -> dict[str, int]:
        """See `EngineStore.sizes`; blobs that no file names do no harm."""
        blobs = self._blobs(fingerprint)
        named = {file.path: file.sha256 for file in manifest.files}
        return {path: blobs[digest] for path, digest in named.items() if digest in blobs}

    def chunks(self, fingerprint: str, file: EngineFile) -> Iterator[Piece]:
        """See `EngineStore.chunks`."""
        key = self._key(fingerprint, BLOBS, file.sha256)

        def read(start: int, end: int) -> list[Piece]:
            with explained(f"{self}: {file.path}", STORE_ERRORS):
                try:
                    return pieces(obstore.get(self._client, key, options={"range": (start, end)}))
                except (FileNotFoundError, NotFoundError) as error:
                    raise EngineCorruptError(f"{self}: {file.path} is missing ({key}).") from error

        with explained(f"{self}: {file.path}", STORE_ERRORS):
            try:
                size = obstore.head(self._client, key)["size"]
            except (FileNotFoundError, NotFoundError) as error:
                raise EngineCorruptError(f"{self}: {file.path} is missing ({key}).") from error
        yield from parts(read, 0, size)

    def put(
        self, fingerprint: str, manifest: bytes, files: Iterable[tuple[EngineFile, Iterable[Piece]]]
    ) -> None:
        """See `EngineStore.put`; blobs of an upload that was cut stay for the next one."""
        there = self._blobs(fingerprint)
        for file, chunks in files:
            if there.get(file.sha256) != file.size:
                self.upload(fingerprint, file, chunks)
                there[file.sha256] = file.size
        self._publish(fingerprint, manifest)

    def unused_since(self, fingerprint: str) -> datetime | None:
        with explained(str(self), STORE_ERRORS):
            try:
                found = obstore.get(self._client, self._key(fingerprint, UNUSED)).bytes()
            except (FileNotFoundError, NotFoundError):
                return None
        return datetime.fromisoformat(bytes(found).decode())

    def note_unused(self, fingerprint: str, since: datetime) -> None:
        with explained(str(self), STORE_ERRORS):
            key = self._key(fingerprint, UNUSED)
            obstore.put(self._client, key, since.isoformat().encode())

    def used(self, fingerprint: str) -> None:
        with explained(str(self), STORE_ERRORS), suppress(FileNotFoundError, NotFoundError):
            obstore.delete(self._client, self._key(fingerprint, UNUSED))

    def remove_unused(self, fingerprint: str, before: datetime) -> bool:
        """See `EngineStore.remove_unused`; a bucket has no locks, so it only looks once more."""
        since = self.unused_since(fingerprint)
        if since is None or since > before:
            return False
        self.remove(fingerprint)
        self.used(fingerprint)
        return True

    def remove(self, fingerprint: str) -> None:
        with explained(str(self), STORE_ERRORS):
            obstore.delete(self._client, self._key(fingerprint, MANIFEST_NAME))
            for page in obstore.list(self._client, f"{self._key(fingerprint)}/"):
                obstore.delete(self._client, [str(item["path"]) for item in page])

    def upload(self, fingerprint: str, file: EngineFile, chunks: Iterable[Piece]) -> None:
        """Put one blob; nothing is kept of one whose bytes differ from the manifest."""
        source = checked(file, chunks, f"engine {fingerprint[:12]}")
        with explained(str(self), STORE_ERRORS):
            obstore.put(self._client, self._key(fingerprint, BLOBS, file.sha256), source)

    def _publish(self, fingerprint: str, manifest: bytes) -> None:
        """Put the manifest, unless another builder was first: then its engine counts.

        What other uploads have left goes: a builder that still uploads will find this manifest, so
        its blobs are needed no more either.
        """
        key = self._key(fingerprint, MANIFEST_NAME)
        with explained(str(self), STORE_ERRORS), suppress(AlreadyExistsError):
            obstore.put(self._client, key, manifest, mode="create")
        kept = parse_manifest(self.manifest(fingerprint), fingerprint, str(self))
        idle = self._blobs(fingerprint).keys() - {file.sha256 for file in kept.files}
        if idle:
            with explained(str(self), STORE_ERRORS):
                obstore.delete(
                    self._client, [self._key(fingerprint, BLOBS, digest) for digest in idle]
                )

    def _key(self, fingerprint: str, *parts: str) -> str:
        return self._address.key("/".join(("engines", fingerprint, *parts)))

    def _blobs(self, fingerprint: str) -> dict[str, int]:
        found: dict[str, int] = {}
        with explained(str(self), STORE_ERRORS):
            for page in obstore.list(self._client, f"{self._key(fingerprint, BLOBS)}/"):
                found |= {str(item["path"]).rpartition("/")[2]: item["size"] for item in page}
        # Gateways over a file system list uploads that still run, under names of their own:
        # deleting one ends the upload of another builder.
        return {name: size for name, size in found.items() if FINGERPRINT.fullmatch(name)}
