"""S3-compatible buckets: the client's settings from the environment, its errors as sentences.

A source and a store may lie in different buckets of one command: what is set as `MM_SOURCE_AWS_*`
or `MM_STORE_AWS_*` counts for the one only, the plain `AWS_*` names count for both.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import certifi
from obstore import exceptions
from obstore.store import S3Store

from mm_runtime.base.resumable_file import PIECE_BYTES, Piece
from mm_runtime.base.trust import TRUST
from mm_runtime.errors import (
    RuntimeCommandError,
    SourceDeniedError,
    SourceNotFoundError,
    SourceUnavailableError,
    SourceUntrustedError,
    StoreUnreachableError,
)

if TYPE_CHECKING:
    from obstore import GetResult
    from obstore.store import S3Config

Role = Literal["SOURCE", "STORE"]

_IDENTITY = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
"""Set by the cluster when a pod's service account stands for a role."""

CONNECT = timedelta(seconds=5)
READ = timedelta(seconds=30)
"""Without a single byte: a server that answers slowly is waited for, one that hangs is not."""
REQUEST = timedelta(hours=1)
"""For one complete request; objects are read in parts, so only a crawling one meets it."""
RETRIES = 5
RETRY_SECONDS = timedelta(seconds=60)
"""For all attempts of one request; a Job that fails is tried again later anyway."""


def open_bucket(bucket: str, role: Role, environment: Mapping[str, str] | None = None) -> S3Store:
    """Return a client of a bucket; no request is sent yet.

    Without keys and without a role of the pod's, requests are not signed: public buckets answer.
    """
    variables = os.environ if environment is None else environment

    def setting(name: str) -> str:
        return variables.get(f"MM_{role}_{name}") or variables.get(name) or ""

    endpoint = setting("AWS_ENDPOINT_URL")
    key, secret = setting("AWS_ACCESS_KEY_ID"), setting("AWS_SECRET_ACCESS_KEY")
    config: S3Config = {
        "region": setting("AWS_REGION") or setting("AWS_DEFAULT_REGION") or "us-east-1",
        "skip_signature": not key and not any(variables.get(name) for name in _IDENTITY),
    }
    if endpoint:
        config["endpoint"] = endpoint
    if key:
        config["access_key_id"] = key
        config["secret_access_key"] = secret
    if token := setting("AWS_SESSION_TOKEN"):
        config["session_token"] = token
    authorities = setting("AWS_CA_BUNDLE") or variables.get("SSL_CERT_FILE") or certifi.where()
    return S3Store(
        bucket,
        config=config,
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": CONNECT,
            "read_timeout": READ,
            "timeout": REQUEST,
            "root_certificate": Path(authorities).read_bytes(),
        },
        retry_config={"max_retries": RETRIES, "retry_timeout": RETRY_SECONDS},
    )


PART_BYTES = 16 * 1024 * 1024
PARTS_AT_A_TIME = 6
"""A connection to S3 carries about 100 MB/s, so one alone leaves a network idle. The parts wait in
memory until they are taken in order: 96 MB."""


def parts(read: Callable[[int, int], list[Piece]], start: int, size: int) -> Iterator[Piece]:
    """Yield an object's bytes from an offset on, in order; `read` returns those between two."""
    with ThreadPoolExecutor(PARTS_AT_A_TIME) as pool:
        waiting: deque[Future[list[Piece]]] = deque()
        position = start
        try:
            while position < size or waiting:
                while position < size and len(waiting) < PARTS_AT_A_TIME:
                    end = min(position + PART_BYTES, size)
                    waiting.append(pool.submit(read, position, end))
                    position = end
                yield from waiting.popleft().result()
        finally:
            for part in waiting:
                part.cancel()


def pieces(answer: "GetResult") -> list[Piece]:
    return [memoryview(piece) for piece in answer.stream(min_chunk_size=PIECE_BYTES)]


@dataclass(frozen=True, slots=True)
class Errors:
    """Which of our errors a problem becomes."""

    missing: type[RuntimeCommandError]
    denied: type[RuntimeCommandError]
    untrusted: type[RuntimeCommandError]
    unavailable: type[RuntimeCommandError]
    keys: str = (
        "Check the keys of the Secret (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), and that they may"
        " list and read the bucket."
    )
    """What to do about refused keys: a sentence."""
    trust: str = TRUST
    """What to do about a certificate."""


SOURCE_ERRORS = Errors(
    missing=SourceNotFoundError,
    denied=SourceDeniedError,
    untrusted=SourceUntrustedError,
    unavailable=SourceUnavailableError,
)
STORE_ERRORS = Errors(
    missing=StoreUnreachableError,
    denied=StoreUnreachableError,
    untrusted=StoreUnreachableError,
    unavailable=StoreUnreachableError,
)


@contextmanager
def explained(what: str, errors: Errors = SOURCE_ERRORS) -> Iterator[None]:
    """Turn the client's errors into ours. `what` was requested: an address without secrets.

    Raises:
        PreconditionError: the object is another one than was listed; the caller knows what to do.
        RuntimeCommandError: one of `errors`.
    """
    try:
        yield
    except exceptions.PreconditionError:
        raise
    except (FileNotFoundError, PermissionError, exceptions.BaseError) as error:
        code, said = _said(error)
        if isinstance(error, FileNotFoundError) or code in _MISSING:
            raise errors.missing(
                f"{what} does not exist{said}. Check bucket, prefix and endpoint."
            ) from error
        if isinstance(error, (PermissionError, *_REFUSALS)) or code in _DENIED:
            raise errors.denied(
                f"{what}: the server refuses the credentials{said}. {errors.keys}"
            ) from error
        if _UNTRUSTED in str(error):
            raise errors.untrusted(
                f"{what}: the endpoint's certificate is not trusted: {errors.trust}"
            ) from error
        raise errors.unavailable(f"{what} does not answer now{said}.") from error


_REFUSALS = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
_MISSING = frozenset({"NoSuchBucket", "NoSuchKey"})
_DENIED = frozenset(
    {
        "AccessDenied",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    }
)
_BUSY = frozenset({"PermanentRedirect", "RequestTimeout", "SlowDown", "InternalError"})
_CAUSES = (
    ("Connection refused", "connection refused"),
    ("dns error", "the name of the endpoint cannot be resolved"),
    ("kind: Timeout", "no answer in time"),
    ("connection closed", "the connection was cut"),
)
_UNTRUSTED = "InvalidCertificate"


def _said(error: Exception) -> tuple[str, str]:
    """Return S3's code of an error and the words for a message.

    Only known words are passed on: the client's own text repeats the request.
    """
    text = str(error)
    code = next((code for code in sorted(_MISSING | _DENIED | _BUSY) if code in text), "")
    cause = code or next((meaning for sign, meaning in _CAUSES if sign in text), "")
    return code, f" ({cause})" if cause else ""
