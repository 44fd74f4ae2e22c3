"""A store from the text of `--store`. The client of buckets is imported for a bucket only."""

from pathlib import Path
from typing import TYPE_CHECKING

from mm_runtime.errors import PermanentError
from mm_runtime.sources.address import BUCKET, parse_bucket
from mm_runtime.store.directory import DirectoryStore

if TYPE_CHECKING:
    from mm_runtime.store.engines import EngineStore


def open_store(text: str) -> "EngineStore":
    """Return the store at a path or at `s3://BUCKET/PREFIX`; PermanentError: another scheme."""
    if text.startswith(BUCKET):
        from mm_runtime.store.bucket import BucketStore  # noqa: PLC0415 (see module)

        return BucketStore(parse_bucket(text))
    if "://" in text:
        raise PermanentError(
            f"{text!r} is not a store; expected a directory or s3://BUCKET/PREFIX."
        )
    return DirectoryStore(Path(text))
