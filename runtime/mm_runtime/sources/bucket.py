"""A checkpoint in an S3 bucket."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import obstore

from mm_runtime.base.buckets import explained, open_bucket, parts, pieces
from mm_runtime.base.resumable_file import Piece, ResumableFile
from mm_runtime.errors import SourceChangedError, SourceNotFoundError
from mm_runtime.sources.address import BucketAddress
from mm_runtime.sources.remote import RemoteFile

if TYPE_CHECKING:
    from obstore import GetOptions

log = logging.getLogger(__name__)


class BucketSource:
    """Objects below a prefix; what is requested is compared by ETag with what was listed."""

    parallel_files = 1

    def __init__(self, address: BucketAddress, environment: Mapping[str, str]) -> None:
        self.address = address
        self.commit: str | None = None
        self._store = open_bucket(address.bucket, "SOURCE", environment)

    def files(self) -> list[RemoteFile]:
        """Return the objects below the prefix.

        Raises:
            SourceNotFoundError: no bucket, or nothing below the prefix.
            SourceDeniedError: wrong keys.
            SourceUnavailableError: the server is down.
        """
        prefix = f"{self.address.prefix}/" if self.address.prefix else ""
        found = []
        with explained(str(self.address)):
            for page in obstore.list(self._store, prefix or None):
                found += [
                    RemoteFile(
                        str(item["path"]).removeprefix(prefix), item["size"], item["e_tag"] or ""
                    )
                    for item in page
                ]
        if not found:
            raise SourceNotFoundError(
                f"{self.address} holds no object. Set prefix to the one that config.json has."
            )
        return sorted(found, key=lambda file: file.name)

    def read(self, file: RemoteFile, start: int, length: int) -> bytes:
        end = min(start + length, file.size)
        return b"".join(self._part(file, start, end)) if end > start else b""

    def download(self, file: RemoteFile, partial: Path) -> str:
        """Append what is missing, in parts that are fetched side by side and written in order."""
        with ResumableFile(partial) as writer:
            for piece in parts(
                lambda start, end: self._part(file, start, end), writer.resumed_bytes, file.size
            ):
                writer.write(piece)
            return writer.finish()

    def _part(self, file: RemoteFile, start: int, end: int) -> list[Piece]:
        key = self.address.key(file.name)
        where = f"s3://{self.address.bucket}/{key}"
        with explained(where):
            try:
                return pieces(obstore.get(self._store, key, options=_part_of(file, start, end)))
            except obstore.exceptions.PreconditionError as error:
                raise SourceChangedError(
                    f"{where} was replaced while it was read. It is inspected again."
                ) from error


def _part_of(file: RemoteFile, start: int, end: int) -> "GetOptions":
    if file.version:
        return {"range": (start, end), "if_match": file.version}
    return {"range": (start, end)}
