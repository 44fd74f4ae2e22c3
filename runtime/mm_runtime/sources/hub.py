"""A checkpoint on the Hugging Face Hub, or on a mirror that speaks its protocol."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import httpx2
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.hf_api import ModelInfo
from huggingface_hub.utils import build_hf_headers, disable_progress_bars, http_backoff

from mm_runtime.base.durable import sha256
from mm_runtime.base.trust import TRUST, is_untrusted
from mm_runtime.errors import (
    SourceDeniedError,
    SourceNotFoundError,
    SourceUnavailableError,
    SourceUntrustedError,
)
from mm_runtime.sources.address import HubAddress
from mm_runtime.sources.remote import RemoteFile

log = logging.getLogger(__name__)

DEFAULT_ENDPOINT = "https://huggingface.co"
REQUEST_SECONDS = 30.0
RETRY_DELAYS = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each new try of the one request that the client itself does not repeat."""
DENIED = frozenset({401, 403})
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})

Answer = TypeVar("Answer")


class HubSource:
    """A revision of a repository. Its commit is resolved once; every file is then read of that."""

    parallel_files = 4

    def __init__(self, address: HubAddress, environment: Mapping[str, str]) -> None:
        self.address = address
        self.commit: str | None = address.revision if address.pinned else None
        self._endpoint = (environment.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
        # False: the client would otherwise look for a token in the user's home.
        self._token: str | bool = environment.get("HF_TOKEN") or False
        disable_progress_bars()

    def files(self) -> list[RemoteFile]:
        """Return the files of the revision, and note its commit.

        Raises:
            SourceNotFoundError: no such repository or revision.
            SourceDeniedError: no access, or a wrong token.
            SourceUnavailableError: the Hub is down or limits the rate.
        """
        api = HfApi(endpoint=self._endpoint, token=self._token)

        def request() -> ModelInfo:
            return api.model_info(
                self.address.repository,
                revision=self.address.revision,
                files_metadata=True,
                timeout=REQUEST_SECONDS,
            )

        with self._explained(str(self.address)):
            model = _retried(request)
        self.commit = model.sha
        found = []
        for entry in model.siblings or []:
            if entry.size is None or entry.blob_id is None:
                raise SourceUnavailableError(
                    f"{self._endpoint} does not report the size of {entry.rfilename}: it is not a"
                    " complete mirror of the Hub."
                )
            digest = entry.lfs.sha256 if entry.lfs else None
            version = digest or entry.blob_id
            found.append(RemoteFile(entry.rfilename, entry.size, version, digest))
        return sorted(found, key=lambda file: file.name)

    def read(self, file: RemoteFile, start: int, length: int) -> bytes:
        """Return bytes of a file; see `RemoteSource.read`."""
        end = min(start + length, file.size)
        if end <= start:
            return b""
        headers = {**self._headers(), "Range": f"bytes={start}-{end - 1}"}
        with self._explained(self._where(file)):
            answer = http_backoff(
                "GET",
                self._url(file),
                headers=headers,
                timeout=REQUEST_SECONDS,
                follow_redirects=True,
            )
            answer.raise_for_status()
        content = answer.content
        if answer.status_code == httpx2.codes.OK:  # the server knows no ranges
            content = content[start:end]
        if len(content) != end - start:
            raise SourceUnavailableError(
                f"{self._where(file)}: {len(content)} bytes came; expected {end - start}."
            )
        return content

    def download(self, file: RemoteFile, partial: Path) -> str:
        """Append what is missing; a connection that is cut is made again by the client.

        Digested afterwards: the client may begin again in between, and other files come meanwhile.
        """
        with partial.open("ab") as writer:
            with self._explained(self._where(file)):
                http_get(
                    self._url(file),
                    writer,
                    resume_size=writer.tell(),
                    headers=self._headers(),
                    expected_size=file.size,
                    displayed_filename=file.name,
                )
            writer.flush()
            os.fsync(writer.fileno())
        return sha256(partial)

    def _headers(self) -> dict[str, str]:
        # identity: sizes and ranges are of the file, not of a compressed copy.
        headers: dict[str, str] = build_hf_headers(token=self._token)
        return {**headers, "Accept-Encoding": "identity"}

    def _url(self, file: RemoteFile) -> str:
        revision = self.commit or self.address.revision
        return hf_hub_url(
            self.address.repository, file.name, revision=revision, endpoint=self._endpoint
        )

    def _where(self, file: RemoteFile) -> str:
        return f"{file.name} of {self.address}"

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turn the client's errors into ours. Its own texts name URLs, which may be signed."""
        try:
            yield
        except GatedRepoError as error:
            raise SourceDeniedError(
                f"{what} is gated: accept its terms on the Hub, and set"
                " spec.model.source.huggingFace.tokenSecretRef to a token of that account."
            ) from error
        except RevisionNotFoundError as error:
            raise SourceNotFoundError(
                f"{what}: the repository has no revision {self.address.revision!r}. Name a branch,"
                " a tag or a commit of it."
            ) from error
        except RepositoryNotFoundError as error:
            # The Hub answers 401 both without access to a private repository and to unknown names.
            raise (SourceDeniedError if _status(error) in DENIED else SourceNotFoundError)(
                f"{what} does not exist on {self._endpoint}, or it is private and"
                f" {'the token may not read it' if self._token else 'no token is set'}. Check"
                " spec.model.source.huggingFace: repo and tokenSecretRef."
            ) from error
        except (HfHubHTTPError, httpx2.HTTPStatusError) as error:
            raise self._refused(what, _status(error)) from error
        except httpx2.HTTPError as error:
            if is_untrusted(error):
                raise SourceUntrustedError(
                    f"{what}: the certificate of {self._endpoint} is not trusted: {TRUST}"
                ) from error
            raise SourceUnavailableError(
                f"{what} cannot be read from {self._endpoint} now ({type(error).__name__})."
            ) from error
        except OSError as error:
            if error.errno is not None:  # the disk's, not the client's
                raise
            raise SourceUnavailableError(
                f"{what} came with another size than the Hub announced; it is fetched again."
            ) from error

    def _refused(
        self, what: str, status: int
    ) -> SourceDeniedError | SourceNotFoundError | SourceUnavailableError:
        if status in DENIED:
            token = "the token is not accepted" if self._token else "no token is set"
            return SourceDeniedError(
                f"{what}: {self._endpoint} refuses access ({status}): {token}. Check the Secret of"
                " spec.model.source.huggingFace.tokenSecretRef."
            )
        if status == httpx2.codes.NOT_FOUND:
            return SourceNotFoundError(f"{what} does not exist on {self._endpoint}.")
        limited = ": too many requests" if status == httpx2.codes.TOO_MANY_REQUESTS else ""
        return SourceUnavailableError(f"{what}: {self._endpoint} answered {status}{limited}.")


def _status(error: HfHubHTTPError | httpx2.HTTPStatusError) -> int:
    return int(error.response.status_code)


def _retried(request: Callable[[], Answer]) -> Answer:
    """Repeat while the server says that it is its own fault, and after lost connections."""
    for delay in RETRY_DELAYS:
        try:
            return request()
        except HfHubHTTPError as error:
            if _status(error) not in TRANSIENT:
                raise
            log.info("the Hub answered %d; next attempt in %.0f s", _status(error), delay)
        except httpx2.TransportError as error:
            if is_untrusted(error):
                raise
            log.info("the Hub cannot be reached (%s); again in %.0f s", type(error).__name__, delay)
        time.sleep(delay)
    return request()
