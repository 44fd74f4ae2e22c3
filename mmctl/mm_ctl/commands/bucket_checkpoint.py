"""A checkpoint in an S3 bucket: names and ranges of its files.

Endpoint, keys, region and authorities are taken from the environment as by other tools: `AWS_*`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import obstore

from mm_ctl.documents import UsageError
from mm_runtime.base.buckets import Errors, explained, open_bucket
from mm_runtime.errors import (
    RuntimeCommandError,
    SourceDeniedError,
    SourceNotFoundError,
    SourceUnavailableError,
    SourceUntrustedError,
)
from mm_runtime.sources.address import BUCKET, BucketAddress, parse_bucket

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import S3Store

_ERRORS = Errors(
    missing=SourceNotFoundError,
    denied=SourceDeniedError,
    untrusted=SourceUntrustedError,
    unavailable=SourceUnavailableError,
    keys="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN, AWS_REGION) to keys"
    " that may list and read the bucket.",
    trust="name a file with the authority that signed it in AWS_CA_BUNDLE",
)


class BucketCheckpoint:
    """Objects directly below a prefix; each is read as it was listed, or not at all."""

    def __init__(self, address: str, environment: Mapping[str, str]) -> None:
        """Prepare a client; no request is sent yet.

        Raises:
            UsageError: the address names no bucket, or a setting of the environment is wrong.
        """
        with _usage(address):
            self._address: BucketAddress = parse_bucket(address)
            self._store: S3Store = open_bucket(self._address.bucket, "SOURCE", environment)
        self._listed: dict[str, tuple[int, str]] = {}

    def __str__(self) -> str:
        return str(self._address)

    def names(self) -> list[str]:
        """Return the names of the objects directly below the prefix."""
        prefix = self._address.key("")
        with _usage(str(self)), explained(str(self), _ERRORS):
            found = obstore.list_with_delimiter(self._store, prefix or None)
        self._listed = {
            str(one["path"]).removeprefix(prefix): (one["size"], one["e_tag"] or "")
            for one in found["objects"]
        }
        if not self._listed:
            raise UsageError(f"{self} holds no object: give the prefix that config.json has")
        return sorted(self._listed)

    def read(self, name: str, most: int, start: int = 0) -> bytes:
        """Return up to `most` bytes of an object, from an offset."""
        size, version = self._listed[name]
        end = min(start + most, size)
        if end <= start:
            return b""
        options: GetOptions = {"range": (start, end)}
        if version:
            options["if_match"] = version
        key = self._address.key(name)
        where = f"{BUCKET}{self._address.bucket}/{key}"
        with _usage(where), explained(where, _ERRORS):
            return bytes(obstore.get(self._store, key, options=options).bytes())


@contextmanager
def _usage(where: str) -> Iterator[None]:
    """Turn what goes wrong into sentences for the command line."""
    try:
        yield
    except RuntimeCommandError as error:
        raise UsageError(str(error)) from error
    except obstore.exceptions.PreconditionError as error:
        raise UsageError(f"{where} was replaced while it was read: run it again") from error
    except obstore.exceptions.BaseError as error:
        raise UsageError(f"{where} cannot be read: {error}") from error
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read: {error.strerror}; expected the PEM file that"
            " AWS_CA_BUNDLE or SSL_CERT_FILE names"
        ) from error
