"""Sends one streaming chat completion and notes when each piece of the answer came."""

import asyncio
import itertools
import json
import resource
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from mm_lab.loadtest.mix import Question
from mm_lab.loadtest.results import Result

TIMEOUT, CONNECT, CUT, EMPTY, EVENT = "timeout", "connect", "cut", "empty", "error-event"
"""Kinds of errors beside `http-CODE`: no end in time; no connection; the stream ended without
`[DONE]`, or in something that is no event of a chat; an answer without a token; an error
event inside the stream."""

_NO_EVENT = (ValueError, TypeError, AttributeError, HttpProcessingError)
"""What reading an event raises that is no JSON, none of a chat, or longer than a line may be."""


@dataclass(slots=True)
class _Stream:
    """What was read of a stream so far."""

    tokens_at: list[float] = field(default_factory=list)
    done: bool = False
    failed: bool = False
    prompt_tokens: int = 0
    output_tokens: int = 0

    def take(self, line: bytes, now: float) -> None:
        """Read one line of server-sent events."""
        if not line.startswith(b"data:"):
            return
        text = line[5:].strip()
        if text == b"[DONE]":
            self.done = True
            return
        event: Any = json.loads(text)
        if not isinstance(event, dict):
            raise TypeError("an event is no object")
        if "error" in event:
            self.failed = True
        if any(_text(choice) for choice in event.get("choices") or ()):
            self.tokens_at.append(now)
        if usage := event.get("usage"):
            self.prompt_tokens = int(usage.get("prompt_tokens") or 0)
            self.output_tokens = int(usage.get("completion_tokens") or 0)

    def error(self) -> str:
        """Return what is wrong with a stream that has ended."""
        if self.failed:
            return EVENT
        if not self.done:
            return CUT
        return "" if self.tokens_at else EMPTY


def _text(choice: dict[str, Any]) -> Any:
    return (choice.get("delta") or {}).get("content") or choice.get("text")


class Client:
    """Sends requests to one endpoint; a connection per request under way, none waits for another.

    Args:
        session: made with `connection`.
        address: up to and with `/v1`.
        timeout_seconds: for one request, to its last byte.
        clock: seconds since the run began.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        address: str,
        *,
        timeout_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._address = address.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._clock = clock

    async def send(self, question: Question, due: float) -> Result:
        """Send, read the complete answer and return the result; never raises for the server."""
        started = Result(
            due=due, sent=self._clock(), ended=0.0, images=question.images, turn=question.turn
        )
        stream = _Stream()
        try:
            error = await self._read(question, stream)
        except TimeoutError:
            error = TIMEOUT
        except aiohttp.ClientConnectorError:
            error = CONNECT
        except (aiohttp.ClientError, ConnectionError, *_NO_EVENT):
            error = CUT
        times = stream.tokens_at
        return replace(
            started,
            ended=self._clock(),
            error=error,
            first_token=times[0] if times else None,
            gaps=tuple(later - earlier for earlier, later in itertools.pairwise(times)),
            prompt_tokens=stream.prompt_tokens,
            output_tokens=stream.output_tokens or len(times),
        )

    async def _read(self, question: Question, stream: _Stream) -> str:
        async with self._session.post(
            f"{self._address}/{question.path}", json=question.body, timeout=self._timeout
        ) as answer:
            if answer.status != HTTPStatus.OK:
                return f"http-{answer.status}"
            async for line in answer.content:
                stream.take(line, self._clock())
        return stream.error()


def connection(token: str | None, *, keep: bool = True) -> aiohttp.ClientSession:
    """Return a session without a limit of connections: a limit would be a queue in the client.

    The process may then open as many files as it can get: an overload has more requests under way
    than the usual 1,024.

    Args:
        token: that the endpoint wants.
        keep: use a connection again once its request is answered.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    connector = aiohttp.TCPConnector(limit=0, force_close=not keep)
    return aiohttp.ClientSession(connector=connector, headers=headers)


async def models_of(session: aiohttp.ClientSession, address: str, seconds: float) -> list[str]:
    """Return the names of the models that an endpoint serves.

    Raises:
        aiohttp.ClientError: the endpoint does not answer, or not with a list of models.
        TimeoutError: not in time.
    """
    limit = aiohttp.ClientTimeout(total=seconds)
    async with asyncio.timeout(seconds):
        async with session.get(f"{address.rstrip('/')}/models", timeout=limit) as answer:
            answer.raise_for_status()
            listed = await answer.json(content_type=None)
    return [str(one["id"]) for one in listed["data"]]
