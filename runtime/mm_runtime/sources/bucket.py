"""A checkpoint in an S3 bucket."""

import logging
import os
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import obstore

from mm_runtime.buckets import explained, open_bucket
from mm_runtime.errors import SourceChangedError, SourceNotFoundError
from mm_runtime.sources.address import BucketAddress
from mm_runtime.sources.remote import RemoteFile

log = logging.getLogger(__name__)

PART_BYTES = 16 * 1024 * 1024
PARTS_AT_A_TIME = 6
"""A connection to S3 carries about 100 MB/s, so one alone leaves a network idle. The parts wait in
memory until they are written in order: 96 MB."""


class BucketSource:
    """Objects below a prefix; what is asked for is compared by ETag with what was listed."""

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
        """Return bytes of an object; see `RemoteSource.read`."""
        end = min(start + length, file.size)
        return bytes(self._part(file, start, end)) if end > start else b""

    def download(self, file: RemoteFile, partial: Path) -> None:
        """Append what is missing, in parts that are fetched side by side and written in order."""
        with partial.open("ab") as writer, ThreadPoolExecutor(PARTS_AT_A_TIME) as pool:
            position = writer.tell()
            waiting: deque[Future[memoryview]] = deque()
            try:
                while position < file.size or waiting:
                    while position < file.size and len(waiting) < PARTS_AT_A_TIME:
                        end = min(position + PART_BYTES, file.size)
                        waiting.append(pool.submit(self._part, file, position, end))
                        position = end
                    writer.write(waiting.popleft().result())
            finally:
                for part in waiting:
                    part.cancel()
            writer.flush()
            os.fsync(writer.fileno())

    def _part(self, file: RemoteFile, start: int, end: int) -> memoryview:
        key = self.address.key(file.name)
        where = f"s3://{self.address.bucket}/{key}"
        with explained(where):
            try:
                answer = obstore.get(
                    self._store, key, options={"range": (start, end), "if_match": file.version}
                )
                return memoryview(answer.bytes())
            except obstore.exceptions.PreconditionError as error:
                raise SourceChangedError(
                    f"{where} was replaced while it was read. It is inspected again."
                ) from error
