"""A checkpoint on the Hugging Face Hub: names and ranges of its files.

A mirror is that of the environment (`HF_ENDPOINT`), else that of the spec. The token (`HF_TOKEN`)
is shown to the Hub and to the environment's mirror only: the author of a spec must not get it.
"""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote, urlsplit

from mm_api.sentences import a
from mm_ctl.commands.remote_folder import MOST_JSON_BYTES
from mm_ctl.documents import UsageError

SCHEME: Final = "hf://"
ENDPOINT: Final = "https://huggingface.co"
SECONDS: Final = 30.0
_ADDRESS = re.compile(r"hf://([-._a-zA-Z0-9]+(?:/[-._a-zA-Z0-9]+)?)(?:@([^\s@]{1,128}))?")


@dataclass(frozen=True)
class HubCheckpoint:
    """A revision of a repository, and how it is reached."""

    repository: str
    revision: str
    endpoint: str
    token: str

    @classmethod
    def parse(
        cls, address: str, environment: Mapping[str, str], mirror: str | None = None
    ) -> "HubCheckpoint":
        """Read `hf://ORG/NAME@REVISION`; without a revision it is main.

        Args:
            address: of the repository.
            environment: with `HF_ENDPOINT` and `HF_TOKEN`, if any.
            mirror: base URL that a spec names.

        Raises:
            UsageError: it is no such address.
        """
        found = _ADDRESS.fullmatch(address)
        if found is None:
            raise UsageError(f"{address} is no repository; expected hf://ORG/NAME@REVISION")
        own = environment.get("HF_ENDPOINT")
        endpoint = (own or mirror or ENDPOINT).rstrip("/")
        trusted = bool(own) or endpoint == ENDPOINT
        token = environment.get("HF_TOKEN", "") if trusted else ""
        return cls(found[1], found[2] or "main", endpoint, token)

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}@{self.revision}"

    def names(self) -> list[str]:
        """Return the names of the files at the top level."""
        siblings = [one for one in self._answer.get("siblings") or [] if isinstance(one, dict)]
        names = [str(one.get("rfilename")) for one in siblings]
        return [name for name in names if PurePosixPath(name).name == name]

    def read(self, name: str, most: int, start: int = 0) -> bytes:
        """Return up to `most` bytes of a file of the revision's commit, from an offset."""
        commit = quote(str(self._answer.get("sha") or self.revision), safe="")
        return self._get(f"/{self.repository}/resolve/{commit}/{quote(name)}", most, start)

    @cached_property
    def _answer(self) -> dict[str, Any]:
        """What the Hub says of the revision."""
        path = f"/api/models/{self.repository}/revision/{quote(self.revision, safe='')}"
        return _object(self._get(path, MOST_JSON_BYTES), str(self))

    def _get(self, path: str, most: int, start: int = 0) -> bytes:
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
            f"{'' if endpoint == ENDPOINT else f', with HF_ENDPOINT={endpoint}'}"
        )
    if status == HTTPStatus.NOT_FOUND:
        return f"{endpoint} has no such repository, revision or file"
    return f"{endpoint} answered {status}"


def _object(content: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except ValueError as error:
        raise UsageError(f"{name}: the answer is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{name}: the answer is {a(type(value).__name__)}; expected an object")
    return value
