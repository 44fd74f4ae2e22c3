"""A store from the text of `--store`."""

from collections.abc import Mapping
from pathlib import Path

from mm_runtime.errors import PermanentError
from mm_runtime.sources.address import BUCKET, parse_bucket
from mm_runtime.store.bucket import BucketStore
from mm_runtime.store.directory import DirectoryStore
from mm_runtime.store.engines import EngineStore


def opened_bucket(text: str, environment: Mapping[str, str] | None = None) -> BucketStore | None:
    """Return the store when it is a bucket, None when it is a directory.

    Raises:
        PermanentError: another scheme.
    """
    store = open_store(text, environment)
    return store if isinstance(store, BucketStore) else None


def open_store(text: str, environment: Mapping[str, str] | None = None) -> EngineStore:
    """Return the store at a path or at `s3://BUCKET/PREFIX`.

    Raises:
        PermanentError: another scheme.
    """
    if text.startswith(BUCKET):
        return BucketStore(parse_bucket(text), environment)
    if "://" in text:
        raise PermanentError(f"{text!r} is no store; expected a directory or s3://BUCKET/PREFIX.")
    return DirectoryStore(Path(text))
