"""A checkpoint on the Hugging Face Hub as a folder to plan from: configurations and headers alone.

Weights are not downloaded: of each safetensors file the header is read, by ranges. A mirror
(`HF_ENDPOINT`) and a token (`HF_TOKEN`) are taken from the environment, a proxy too.
"""

import json
import os
import re
import struct
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote, urlsplit

from mm_ctl.documents import UsageError

SCHEME: Final = "hf://"
ENDPOINT: Final = "https://huggingface.co"
SECONDS: Final = 30.0
FILES_AT_A_TIME: Final = 8
MOST_FILES: Final = 1000
MOST_JSON_BYTES: Final = 64 * 1024 * 1024
MOST_HEADER_BYTES: Final = 100_000_000
"""The longest header that the safetensors format allows."""
FIRST_BYTES: Final = 256 * 1024
"""Read of a weight file at once: most headers are shorter."""
_LENGTH_BYTES = 8
_ADDRESS = re.compile(r"hf://([-._a-zA-Z0-9]+(?:/[-._a-zA-Z0-9]+)?)(?:@([^\s@]{1,128}))?")


@dataclass(frozen=True, slots=True)
class HubCheckpoint:
    """A revision of a repository, and how it is reached."""

    repository: str
    revision: str
    endpoint: str
    token: str

    @classmethod
    def parse(cls, address: str, environment: Mapping[str, str]) -> "HubCheckpoint":
        """Read `hf://ORG/NAME@REVISION`; without a revision it is main.

        Raises:
            UsageError: it is no such address.
        """
        found = _ADDRESS.fullmatch(address)
        if found is None:
            raise UsageError(f"{address} is no repository; expected hf://ORG/NAME@REVISION")
        endpoint = (environment.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
        return cls(found[1], found[2] or "main", endpoint, environment.get("HF_TOKEN", ""))

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}@{self.revision}"

    def files(self) -> tuple[str, list[str]]:
        """Return the commit of the revision and the names of its files at the top level."""
        path = f"/api/models/{self.repository}/revision/{quote(self.revision, safe='')}"
        answer = _object(self.read(path, MOST_JSON_BYTES), str(self))
        siblings = [one for one in answer.get("siblings") or [] if isinstance(one, dict)]
        names = [str(one.get("rfilename")) for one in siblings]
        found = [name for name in names if PurePosixPath(name).name == name]
        if len(found) > MOST_FILES:
            raise UsageError(f"{self} has {len(found)} files; expected {MOST_FILES} at most")
        return str(answer.get("sha") or self.revision), found

    def file(self, commit: str, name: str, most: int, start: int = 0) -> bytes:
        """Return up to `most` bytes of a file, from an offset."""
        path = f"/{self.repository}/resolve/{quote(commit, safe='')}/{quote(name)}"
        return self.read(path, most, start)

    def read(self, path: str, most: int, start: int = 0) -> bytes:
        """Return up to `most` bytes behind a path.

        Raises:
            UsageError: the Hub refuses, or does not answer; says what to do.
        """
        request = urllib.request.Request(  # noqa: S310 - the endpoint is the user's own
            self.endpoint + path, headers={"Range": f"bytes={start}-{start + most - 1}"}
        )
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with _OPENER.open(request, timeout=SECONDS) as answer:
                skipped = 0 if answer.status == HTTPStatus.PARTIAL_CONTENT else start
                content = answer.read(skipped + most)
        except urllib.error.HTTPError as error:
            raise UsageError(f"{self}: {_refusal(error.code, self.endpoint)}") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"{self}: {self.endpoint} does not answer: {error}") from error
        return bytes(content[skipped:])


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows the Hub to its storage, which gets no token of the Hub's."""

    def redirect_request(self, *arguments: Any) -> urllib.request.Request | None:
        """Return the next request."""
        following = super().redirect_request(*arguments)
        former: urllib.request.Request = arguments[0]
        if following and urlsplit(following.full_url).netloc != urlsplit(former.full_url).netloc:
            following.remove_header("Authorization")
        return following


_OPENER = urllib.request.build_opener(_Redirects)


def _refusal(status: int, endpoint: str) -> str:
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return (
            f"{endpoint} refuses it ({status}): accept the repository's terms there, and set"
            " HF_TOKEN to a token that may read it"
        )
    if status == HTTPStatus.NOT_FOUND:
        return f"{endpoint} has no such repository, revision or file"
    return f"{endpoint} answered {status}"


@contextmanager
def hub_folder(address: str, environment: Mapping[str, str] | None = None) -> Iterator[Path]:
    """Give a folder with a repository's configurations, and its weight files cut to their headers.

    Raises:
        UsageError: there is no such repository, or it is not read; says what to do.
    """
    source = HubCheckpoint.parse(address, os.environ if environment is None else environment)
    commit, names = source.files()
    with TemporaryDirectory(prefix="hub-") as scratch:
        folder = Path(scratch)
        _write(folder, source, commit, names)
        try:
            yield folder
        except UsageError as error:
            raise UsageError(str(error).replace(str(folder), str(source))) from error


def _write(folder: Path, source: HubCheckpoint, commit: str, names: Iterable[str]) -> None:
    def write(name: str) -> None:
        if name.endswith(".safetensors"):
            content = _header(source, commit, name)
        else:
            content = source.file(commit, name, MOST_JSON_BYTES)
        (folder / name).write_bytes(content)

    wanted = [name for name in names if name.endswith(".safetensors") or name in _CONFIGURATIONS]
    with ThreadPoolExecutor(FILES_AT_A_TIME) as pool:
        list(pool.map(write, wanted))


_CONFIGURATIONS = frozenset(
    {"config.json", "args.json", "preprocessor_config.json", "model.safetensors.index.json"}
)


def _header(source: HubCheckpoint, commit: str, name: str) -> bytes:
    first = source.file(commit, name, FIRST_BYTES)
    if len(first) < _LENGTH_BYTES:
        raise UsageError(f"{source}: {name} is not a safetensors file: it has {len(first)} bytes")
    (length,) = struct.unpack("<Q", first[:_LENGTH_BYTES])
    if length > MOST_HEADER_BYTES:
        raise UsageError(
            f"{source}: {name} is not a safetensors file: its header has {length} bytes"
        )
    size = _LENGTH_BYTES + length
    rest = size - len(first)
    return first[:size] if rest <= 0 else first + source.file(commit, name, rest, len(first))


def _object(content: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError as error:
        raise UsageError(f"{name}: the answer is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{name}: the answer is a {type(value).__name__}; expected an object")
    return value
