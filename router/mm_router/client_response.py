"""The one answer to one client: never a second head, and an error where one still fits."""

from collections.abc import Mapping
from http import HTTPStatus

from mm_edge.asgi import Receive, Send
from mm_edge.body import ClientGoneError, discard_body
from mm_edge.drain import Drain
from mm_edge.errors import error_response
from mm_edge.json_text import encode
from mm_edge.patience import Patience

EVENT_STREAM = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
"""Headers of a stream that begins before its replica answers: those of the gateway."""

_COMMENT = b": keep-alive\n\n"

_STALLED_SECONDS = 30.0
"""Until a client that takes nothing more counts as gone; its gateway ends the stream before."""


class ClientResponse:
    """Sends an answer; `status` is 0 until its head is out."""

    def __init__(self, send: Send, drain: Drain) -> None:
        self._send = send
        self._drain = drain
        self.status = 0
        self.complete = False
        self._is_stream = False

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head; a client of a router that drains leaves with its answer."""
        closing = {"connection": "close"} if self._drain.closing else {}
        pairs = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in {**headers, **closing}.items()
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})
        self.status = status
        self._is_stream = "content-length" not in headers

    async def write(self, content: bytes, *, more: bool) -> None:
        """Send a part of the body, or raise ClientGoneError: the client has stopped reading."""
        try:
            async with Patience(_STALLED_SECONDS):
                await self._send({"type": "http.response.body", "body": content, "more_body": more})
        except TimeoutError:
            raise ClientGoneError from None
        self.complete = not more

    async def comment(self) -> None:
        """Send a comment of server-sent events; the first one begins the answer.

        Raises:
            ClientGoneError: the client has stopped reading.
        """
        if not self.status:
            await self.start(HTTPStatus.OK, EVENT_STREAM)
        await self.write(_COMMENT, more=True)

    async def send_json(self, status: int, body: object, headers: Mapping[str, str]) -> None:
        content = encode(body)
        length = {"content-type": "application/json", "content-length": str(len(content))}
        await self.start(status, {**length, **headers})
        await self.write(content, more=False)

    async def fail(self, error: Exception, receive: Receive) -> None:
        """Answer with an error; a stream that has begun ends with it.

        Raises:
            ClientGoneError: an answer of a stated length has begun: its connection is closed.
        """
        if self.complete:
            return
        if self.status and not self._is_stream:
            raise ClientGoneError
        response = error_response(error)
        if self.status:
            await self.write(b"data: " + encode(response.body) + b"\n\n", more=False)
            return
        if "connection" in response.headers:
            await discard_body(receive)
        await self.send_json(response.status, response.body, response.headers)
