"""Answers of replicas to clients: events as they come, everything else when it is complete."""

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from mm_router.client_response import ClientResponse
from mm_router.upstream import Answer, BrokenError

_EVENT_BYTES = 1 << 20
"""Size of an event that is held until it is complete; a longer one is passed on as it comes."""

_ANSWER_BYTES = 32 << 20
"""Size of an answer that is no stream: a hundred times the longest."""

_LEAST_EVENTS = 3
"""A text in one event and what ends a stream say nothing about times between tokens."""

_END = b"\n\n"
_COMMENT = b":"
_ERRORS = (b'data: {"error":', b"event: error")
"""How the events of a stream begin that failed; quotes of a model's text are escaped."""


@dataclass(slots=True)
class Course:
    """How a stream came: when its first and its last event, of how many, by a monotonic clock."""

    first: float | None = None
    last: float = 0.0
    events: int = 0
    failed: bool = False

    def note(self, part: bytes) -> None:
        """Take complete events."""
        count = part.count(_END)
        if not part.startswith(_COMMENT) and count:
            self.last = time.monotonic()
            self.first = self.first or self.last
            self.events += count
        self.failed = self.failed or any(one in part for one in _ERRORS)

    @property
    def inter_token(self) -> float | None:
        """Return the mean time between two events; None: there were fewer than three."""
        if self.first is None or self.events < _LEAST_EVENTS:
            return None
        return (self.last - self.first) / (self.events - 1)


class Received:
    """An answer whose first bytes have come; `content`: all of its body, None for a stream."""

    def __init__(self, answer: Answer, content: bytes | None, first: bytes = b"") -> None:
        self._answer = answer
        self._first = first
        self.content = content

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers, names in lower case."""
        return self._answer.headers

    @property
    def has_begun(self) -> bool:
        """Return whether a token has come: a stream that waits for one has comments at most."""
        return self.content is None and bool(self._first) and not self._first.startswith(_COMMENT)

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body of a stream as it comes; BrokenError: the connection ended too early."""
        yield self._first
        while part := await self._answer.next_bytes():
            yield part

    def close(self) -> None:
        """End it: its connection goes, unless the answer was complete."""
        self._answer.close()


async def receive_answer(answer: Answer) -> Received:
    """Wait for the first bytes of a stream, or for all of another answer.

    Raises:
        BrokenError: the connection ended before, or the answer is too large.
    """
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        return Received(answer, None, await answer.next_bytes())
    content = bytearray()
    while part := await answer.next_bytes():
        content += part
        if len(content) > _ANSWER_BYTES:
            raise BrokenError("the answer is too large")
    return Received(answer, bytes(content))


async def pass_on(received: Received, response: ClientResponse, course: Course) -> None:
    """Send an answer to the client. Events go out complete: an error may follow each of them.

    `course` learns when the events of a stream came.

    Raises:
        BrokenError: the connection to the replica ended too early.
        ClientGoneError: the client has stopped reading.
    """
    if received.content is not None and response.status:
        # Comments have begun a stream: what is no event becomes one, the last.
        await response.write(b"data: " + received.content + _END, more=False)
        return
    if received.content is not None:
        length = {"content-length": str(len(received.content))}
        await response.start(received.status, {**received.headers, **length})
        await response.write(received.content, more=False)
        return
    if not response.status:
        await response.start(received.status, received.headers)
    held = b""
    async for part in received.parts():
        held += part
        end = len(held) if len(held) > _EVENT_BYTES else held.rfind(_END) + len(_END)
        if end >= len(_END):
            course.note(held[:end])
            await response.write(held[:end], more=True)
            held = held[end:]
    await response.write(held, more=False)
