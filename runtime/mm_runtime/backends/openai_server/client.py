"""The engine behind a server of OpenAI's API: its chat as a stream, over HTTP.

What a request says is each backend's own: servers refuse fields that they do not know.
"""

import asyncio
import io
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, nullcontext, suppress
from http import HTTPStatus
from math import inf
from typing import Any, Protocol

import aiohttp
import pybase64
from pydantic_core import from_json

from mm_edge.errors import GatewayError, InvalidRequestError
from mm_runtime.backends.openai_server.body import ChatBody, MediaFile
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.errors import engine_failed, engine_unavailable
from mm_runtime.gateway.media.as_sent import AsSent, Check, held_bytes
from mm_runtime.gateway.media.encoding_memory import EncodingMemory

_PROBE_SECONDS = 1.0
"""Deadline of a readiness question; the kubelet's probe allows one second by default."""
_CONNECT_SECONDS = 1.0
"""On loopback a server that listens accepts in microseconds."""
_IDLE_SECONDS = 2.0
"""Upstream closes connections that were idle for 5 s (TIMEOUT_KEEP_ALIVE of openai_server.py); one
that is used again just then would fail its request."""
MESSAGE_CHARACTERS = 300
"""Characters of an error's message that are passed on: upstream's can hold an entire request."""
_DATA, _DONE = b"data:", b"[DONE]"
_END_SECONDS = 0.05
"""From the last event until the answer's end: a connection that has seen it is used again."""
_AT_ONCE_BYTES = 512 * 1024
"""A body of so much media and text is made in half a millisecond, less than a thread costs."""
_SENT_BYTES = 3 << 16
"""Bytes of a file at one time: base64 of them needs no filling, and the loop not a millisecond."""


class Dialect(Protocol):
    """What only one server understands or says."""

    @property
    def waits(self) -> bool:
        """Whether `body` waits for others, or writes a prompt by a checkpoint's template."""
        ...

    def body(self, request: EngineRequest) -> ChatBody:
        """Return what the server is sent of a request; of a large one called in a thread.

        Raises:
            InvalidRequestError: it serves no such request.
        """
        ...

    def refusal(self, event: str) -> str | None:
        """Return why the server refuses what it had begun to answer; None: it failed."""
        ...


class OpenAiServerEngine:
    """Implements `mm_runtime.gateway.backends.engine.Engine` on a server of OpenAI's API.

    Args:
        address: host:port.
        dialect: of the server.
        request_seconds: of silence that a request may have, which its own deadline ends before.
        encoding_bytes: of memory for media that are encoded and sent at one time.
    """

    def __init__(
        self,
        address: str,
        dialect: Dialect,
        *,
        request_seconds: float,
        encoding_bytes: int = 1 << 30,
    ) -> None:
        self._dialect = dialect
        self._memory = EncodingMemory(encoding_bytes)
        self._session = aiohttp.ClientSession(
            f"http://{address}",
            # Admission bounds them; a connection more never waits for one less.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=_CONNECT_SECONDS, sock_read=request_seconds
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("accept", "accept-encoding", "user-agent"),
            trust_env=False,  # no proxy stands between two processes of one pod
        )

    async def close(self) -> None:
        await self._session.close()

    async def is_ready(self) -> bool:
        """Return whether the server answers: it listens when the model is loaded."""
        deadline = aiohttp.ClientTimeout(total=_PROBE_SECONDS)
        try:
            async with self._session.get("/health", timeout=deadline) as answer:
                return answer.status == HTTPStatus.OK
        except (aiohttp.ClientError, OSError):  # one of them is TimeoutError
            return False

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        """Yield the text of each chunk, then how it ended.

        Closing the iterator closes the connection, which is how upstream detects a cancellation:
        it checks once a second.
        """
        is_small = _size_of(request) <= _AT_ONCE_BYTES
        check = _check_of(request)
        if check is not None and self._dialect.waits:
            await asyncio.shield(check)
            check = None
        if self._dialect.waits or not is_small:
            making = asyncio.ensure_future(asyncio.to_thread(self._dialect.body, request))
            try:
                body = await asyncio.shield(making)
            except asyncio.CancelledError:  # a thread cannot be ended
                making.add_done_callback(_left)
                raise
        else:
            body = self._dialect.body(request)
        answered = False
        try:
            answering = self._answered(body, check, dict(request.trace), is_small=is_small)
            async with aclosing(answering) as events:
                async for event in events:
                    answered = isinstance(event, Ended)
                    yield event
        except GatewayError:
            if check is not None:
                await asyncio.shield(check)  # raises why the body was not sent to its end
            raise
        finally:
            body.release(answered)

    async def _answered(
        self, body: ChatBody, check: Check | None, headers: dict[str, str], *, is_small: bool
    ) -> AsyncGenerator[Text | Ended, None]:
        """Yield what the server answers to a body; `check`: of its image; `headers`: more of them.

        Raises:
            InvalidRequestError, EngineFailedError, EngineUnavailableError: it does not.
        """
        for file, _ in body.files:
            self._memory.check(file.memory_bytes)
        at_once = not body.files or (
            is_small and not any(file.memory_bytes for file, _ in body.files)
        )
        if check is not None and not at_once:
            await asyncio.shield(check)
            check = None
        if not body.form:
            headers["content-type"] = "application/json"
        joined = _joined(body) if at_once else b""
        if check is not None:
            headers["content-length"] = str(len(joined))
        try:
            async with (
                # Closed by itself: the server may answer without having read it all.
                aclosing(self._sent(body) if check is None else _checked(joined, check)) as content,
                self._session.post(
                    body.path,
                    data=body.form or (_payload(joined) if at_once and check is None else content),
                    headers=headers,
                    allow_redirects=False,
                ) as answer,
            ):
                if answer.status != HTTPStatus.OK:
                    raise _refused(answer.status, await answer.read())
                async with aclosing(self._events(answer.content)) as events:
                    async for event in events:
                        yield event
        except (aiohttp.ClientError, OSError) as error:
            raise engine_unavailable() from error

    async def _sent(self, body: ChatBody) -> AsyncGenerator[bytes, None]:
        """Yield a body, whose files are made as they are sent, and gone once they are."""
        yield body.first
        for file, behind in body.files:
            async with aclosing(self._base64(file)) as pieces:
                async for piece in pieces:
                    yield piece
            yield behind

    async def _base64(self, file: MediaFile) -> AsyncGenerator[bytes, None]:
        made = nullcontext(file.encode()) if not file.memory_bytes else None
        async with made or self._memory.of(file.memory_bytes, file.encode) as encoded:
            encoded.seek(0)
            while piece := encoded.read(_SENT_BYTES):
                yield pybase64.b64encode(piece)

    async def _events(self, content: aiohttp.StreamReader) -> AsyncGenerator[Text | Ended, None]:
        """Yield what server-sent events hold, up to the last one.

        Raises:
            EngineFailedError: an error among them, or an end without the last one.
        """
        reason: FinishReason | None = None
        tokens: int | None = None
        left, done = b"", False
        while not done and (part := await content.readany()):
            *lines, left = (left + part).split(b"\n")
            for line in lines:
                data = line[len(_DATA) :].strip() if line.startswith(_DATA) else b""
                if not data:  # between two events, or no field of ours
                    continue
                if done := data == _DONE:
                    break
                chunk = self._parsed(data)
                for choice in chunk.get("choices", ()):
                    if text := _text(choice):
                        yield text
                    if choice.get("finish_reason"):
                        reason = _reason(choice["finish_reason"])
                if usage := chunk.get("usage"):
                    tokens = usage["completion_tokens"]
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await content.read()
        if reason is None or tokens is None:
            raise engine_failed()
        yield Ended(reason, tokens)

    def _parsed(self, data: bytes) -> dict[str, Any]:
        try:
            chunk = from_json(data)  # a third of json's time, once for each token
        except ValueError as error:
            raise engine_failed() from error
        if isinstance(chunk, dict) and "choices" in chunk:
            return chunk
        if reason := self._dialect.refusal(data.decode()):
            raise InvalidRequestError(reason)
        raise engine_failed()


def _check_of(request: EngineRequest) -> Check | None:
    image = request.images[0] if len(request.images) == 1 else None
    return image.check if isinstance(image, AsSent) else None


async def _checked(joined: bytes, check: Check) -> AsyncGenerator[bytes, None]:
    """Yield a body, whose last byte waits until its image is known to be complete.

    Without it the server reads no JSON, and no file.
    """
    at = 0
    if not check.done():
        yield joined[:-1]
        at = -1
    await asyncio.shield(check)
    yield joined[at:]


def _payload(joined: bytes) -> bytes | io.BytesIO:
    # aiohttp writes a file in several turns of the loop.
    return joined if len(joined) < 2 * _AT_ONCE_BYTES else io.BytesIO(joined)


def _joined(body: ChatBody) -> bytes:
    """Return a body of text and small files, which the server is sent together with its head."""
    parts = [body.first]
    for file, behind in body.files:
        parts += pybase64.b64encode(file.encode().getbuffer()), behind
    return b"".join(parts)


def _size_of(request: EngineRequest) -> int:
    form = 0 if request.form is None else len(request.form.text)
    audio = () if request.audio is None else (request.audio,)
    media = held_bytes(*request.images, *request.videos, *request.recordings, *audio)
    return len(request.prompt) + form + media


def _left(making: "asyncio.Future[ChatBody]") -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().release(False)  # noqa: FBT003


def _text(choice: dict[str, Any]) -> Text | None:
    """Return what a chunk adds to the text; the first one names the role, and has no token."""
    text, ids = choice["delta"].get("content"), choice.get("token_ids")
    if ids is None and not text and (text is None or "role" in choice["delta"]):
        return None
    count = 1 if ids is None else len(ids)
    scores = tuple(map(_score, (choice.get("logprobs") or {}).get("content") or ()))
    return Text(text or "", tokens=count, scores=scores, ids=tuple(ids or ()))


def _score(one: dict[str, Any]) -> TokenScore:
    """Return a token's score.

    Raises:
        EngineFailedError: it is no number: the model computes NaN or infinity.
    """
    text = one["token"]
    if not (isinstance(one["logprob"], int | float) and one["logprob"] < inf):
        raise engine_failed()
    content = one.get("bytes")
    return TokenScore(
        text,
        text.encode(errors="replace") if content is None else bytes(content),
        one["logprob"],
        tuple(map(_score, one.get("top_logprobs") or ())),
    )


def _reason(word: str) -> FinishReason:
    """Return the reason; upstream has others, for answers that it gave up."""
    try:
        return FinishReason(word)
    except ValueError as error:
        raise engine_failed() from error


def _refused(status: int, content: bytes) -> GatewayError:
    """Translate an answer that is no stream. Upstream answers 400 to whatever goes wrong."""
    if status == HTTPStatus.BAD_REQUEST:
        message = message_of(content)
        return InvalidRequestError(f"The model refused the request: {message}.")
    if status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}:
        return engine_unavailable()
    return engine_failed()


def message_of(content: bytes) -> str:
    """Return the first line of an error's message, which some servers have in `error`."""
    try:
        found = json.loads(content)
        message = str(found.get("error", found)["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return "it gives no reason"
    first = message.strip().partition("\n")[0].rstrip(".")
    return first[:MESSAGE_CHARACTERS]
