"""Queries a served model over HTTP, one request at a time, and reads text and log probabilities."""

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from mm_runtime.errors import PermanentError, RuntimeCommandError
from mm_runtime.gateway.warmup.agreement import Served

_SECONDS = 300.0
"""For one answer of eight tokens; a full queue is part of it."""

_MOST_BYTES = 1 << 20
_SHOWN = 300


class Service:
    """A served model; `url` up to and with `/v1`."""

    def __init__(self, url: str, fingerprint: str, token: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise PermanentError(f"{url} is not an address: write http://HOST/v1")
        self._url = url.rstrip("/")
        self._parts = parts
        self._wanted = f"fp_{fingerprint[:10]}"
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._scored = True

    def answer(self, path: str, body: Mapping[str, Any]) -> Served:
        """Return the answer; without log probabilities where the server refuses them.

        Raises:
            RuntimeCommandError: no answer, or another revision's.
            PermanentError: the server refuses the request.
        """
        if not self._scored:
            body = {name: value for name, value in body.items() if name != "logprobs"}
        status, content = self._post(path, body)
        if status == http.client.BAD_REQUEST and self._scored and "logprobs" in str(content):
            self._scored = False
            return self.answer(path, body)
        if status != http.client.OK:
            kind = RuntimeCommandError if status >= http.client.INTERNAL_SERVER_ERROR else None
            raise (kind or PermanentError)(
                f"{self._url}/{path} answered {status}: {json.dumps(content)[:_SHOWN]}"
            )
        if content.get("system_fingerprint") != self._wanted:
            raise RuntimeCommandError(
                f"another revision answered ({content.get('system_fingerprint')}, expected "
                f"{self._wanted}): a rollout is under way; run the comparison again after it"
            )
        return _served(content)

    def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        kind = (
            http.client.HTTPSConnection
            if self._parts.scheme == "https"
            else http.client.HTTPConnection
        )
        connection = kind(str(self._parts.hostname), self._parts.port, timeout=_SECONDS)
        try:
            connection.request(
                "POST", f"{self._parts.path.rstrip('/')}/{path}", json.dumps(body), self._headers
            )
            response = connection.getresponse()
            text = response.read(_MOST_BYTES)
            content = json.loads(text or b"{}")
            return response.status, content if isinstance(content, dict) else {}
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RuntimeCommandError(f"{self._url}/{path} does not answer: {error}") from error
        finally:
            connection.close()


def _served(content: Mapping[str, Any]) -> Served:
    choice = content["choices"][0]
    scores = choice.get("logprobs") or {}
    if "message" in choice:
        found = [one["logprob"] for one in scores.get("content") or ()]
        return Served(choice["message"].get("content") or "", tuple(found))
    return Served(choice.get("text") or "", tuple(scores.get("token_logprobs") or ()))
