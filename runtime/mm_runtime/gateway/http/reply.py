"""Sends one HTTP answer: JSON, or server-sent events; never a second one after the first began."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from starlette.types import Send

from mm_edge.body import ClientGoneError
from mm_edge.json_text import encode
from mm_edge.patience import Patience

JSON = "application/json"
PLAIN = "text/plain; charset=utf-8"
_STALLED_SECONDS = 10.0
"""Until a client that takes nothing more counts as gone, as for bodies. Sending waits only when
some 128 KiB and the client's buffers are full; its kernel says that there is space again when a
sixteenth of those was read, which at 40 KiB a second takes as long."""

_SENT_AT_ONCE = 64 * 1024
"""Bytes that a client takes before it counts as gone: scores of a long prompt are megabytes, which
no slow client takes within a second."""

EVENT_STREAM = "text/event-stream; charset=utf-8"

_COMMENT = b": keep-alive\n\n"
"""A comment of server-sent events: clients drop it, proxies see that the answer lives."""


class Reply:
    """The one answer of one request.

    `headers` is called when it begins, `completed` when its last byte is out, before the event loop
    does anything else. Once it has started, an error can only be an event.
    """

    def __init__(
        self, send: Send, headers: Callable[[], Mapping[str, str]], completed: Callable[[], None]
    ) -> None:
        self._send = send
        self._headers = headers
        self._completed = completed
        self.started = False
        self.complete = False
        # Comments are written beside the answer: a part of it is never between head and first byte.
        self._writing = asyncio.Lock()
        self._written_at = asyncio.get_running_loop().time()

    async def send_json(
        self, status: int, body: object, headers: Mapping[str, str] | None = None
    ) -> None:
        await self.send_encoded(status, encode(body), headers)

    async def send_encoded(
        self, status: int, content: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        length = {"content-length": str(len(content))}
        await self._start(status, JSON, {**length, **(headers or {})})
        await self._write(content, more=False)

    async def send_text(self, text: str) -> None:
        content = text.encode("utf-8", errors="replace")
        await self._start(200, PLAIN, {"content-length": str(len(content))})
        await self._write(content, more=False)

    async def open_stream(self) -> None:
        """Answer with server-sent events, and make proxies pass them on at once.

        A comment may have opened it before.
        """
        async with self._writing:
            if not self.started:
                extra = {"cache-control": "no-cache", "x-accel-buffering": "no"}
                await self._start(200, EVENT_STREAM, extra)

    @asynccontextmanager
    async def kept_alive(self, *, every_seconds: float) -> AsyncIterator[None]:
        """Send a comment whenever a stream has been silent for so long, while the block runs.

        The first one opens the stream: what fails later is its last event, without a status.
        """
        comments = asyncio.create_task(self._comment(every_seconds))
        try:
            yield
        finally:
            comments.cancel()
            await asyncio.wait({comments})

    async def _comment(self, every_seconds: float) -> None:
        clock = asyncio.get_running_loop().time
        while not self.complete:
            silent = clock() - self._written_at
            if silent < every_seconds:
                await asyncio.sleep(every_seconds - silent)
                continue
            try:
                await self.open_stream()
                await self._write(_COMMENT, more=True)
            except ClientGoneError:
                return  # the next event meets the same client and ends its work

    async def send_events(self, *bodies: bytes) -> None:
        await self._write(_written(bodies), more=True)

    async def end_stream(self, *bodies: bytes) -> None:
        """Send the last events of a complete answer, and that it is one."""
        await self._write(_written((*bodies, b"[DONE]")), more=False)

    async def break_stream(self, body: object) -> None:
        await self._write(_written((encode(body),)), more=False)

    async def _start(self, status: int, content_type: str, extra: Mapping[str, str]) -> None:
        if self.started:
            message = "the answer has begun already"
            raise RuntimeError(message)
        headers = {"content-type": content_type, **self._headers(), **extra}
        pairs = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})
        self.started = True

    async def _write(self, content: bytes, *, more: bool) -> None:
        try:
            async with Patience(_STALLED_SECONDS) as patience, self._writing:
                for at in range(0, max(1, len(content)), _SENT_AT_ONCE):
                    end = at + _SENT_AT_ONCE
                    left = more or end < len(content)
                    part = content[at:end]
                    await self._send(
                        {"type": "http.response.body", "body": part, "more_body": left}
                    )
                    patience.restart()
        except TimeoutError:
            raise ClientGoneError from None
        self._written_at = asyncio.get_running_loop().time()
        self.complete = not more
        if self.complete:
            self._completed()


def _written(events: Iterable[bytes]) -> bytes:
    return b"".join([b"data: " + event + b"\n\n" for event in events])
