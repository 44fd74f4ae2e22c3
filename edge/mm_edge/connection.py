"""One client's connection: uvicorn's protocol with deadlines and a bound on their number.

What never becomes a request is answered with OpenAI's error object, too.
"""

import asyncio
import sys
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.server import ServerState

from mm_edge.errors import GatewayError, InvalidRequestError, error_response
from mm_edge.json_text import encode

HEAD_BYTES = 32 * 1024
"""Size of a request line with its headers; proxies in front allow 8 to 32 KiB."""
MAX_HEADERS = 100

_FREE_CHUNKS = 1024
_CHUNK_BYTES = 32
"""Least mean size of a body's further chunks. Each costs the event loop 10 us whatever its size."""

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class StrictConnection(h11.Connection):
    """The server's side of one connection; raises what h11 raises for a malformed message.

    A message whose length two parties may read differently is how requests are smuggled past a
    proxy; heads and chunks cost processor time by their number, not by their bytes.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)
        self._chunks = 0
        self._bytes = 0

    # h11's own type of this is a union with two classes of no use here.
    def next_event(self) -> Any:
        """Return the next event.

        Raises:
            h11.RemoteProtocolError: the message is malformed or breaks a rule; its
                `error_status_hint` is the answer's status.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
            _check_head(event)
        elif isinstance(event, h11.Data):
            self._chunks += 1
            self._bytes += len(event.data)
            if self._chunks > _FREE_CHUNKS + self._bytes // _CHUNK_BYTES:
                raise h11.RemoteProtocolError("the body's chunks are too small")
        return event


class HeadTooLargeError(h11.RemoteProtocolError):
    """The request line or the headers are too long, or these too many."""


def _check_head(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
    # h11 has a limit for heads that are incomplete: one that comes at once is complete.
    line = len(request.method) + len(request.target)
    if line > HEAD_BYTES:
        raise HeadTooLargeError(f"more than {HEAD_BYTES} bytes", error_status_hint=414)
    if line + sum(len(name) + len(value) for name, value in request.headers) > HEAD_BYTES:
        raise HeadTooLargeError(f"more than {HEAD_BYTES} bytes", error_status_hint=431)
    if len(names) > MAX_HEADERS:
        raise HeadTooLargeError(f"more than {MAX_HEADERS} headers", error_status_hint=431)
    if _FRAMING.issubset(names):
        raise h11.RemoteProtocolError("Transfer-Encoding together with Content-Length")


class JoinedWrites(asyncio.Transport):
    """Another transport, to which bytes go before the loop waits again.

    uvicorn writes the head of an answer, each part of its body and its end by themselves. Each
    write is a call into the kernel, which wakes the reader: of an answer of eight events two in
    ten.

    That one's flow control counts them from then on: what is written in one turn has no bound of
    its own.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes | bytearray | memoryview] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes with those of the same turn."""
        if not data:
            return
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def abort(self) -> None:
        self._waiting.clear()
        self._transport.abort()

    def can_write_eof(self) -> bool:
        return self._transport.can_write_eof()

    def write_eof(self) -> None:
        self._send()
        self._transport.write_eof()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        # A client that left has closed it: uvloop's transport refuses to write then.
        if waiting and not self._transport.is_closing():
            self._transport.write(b"".join(waiting))


class Connection(Protocol):
    """What is known of a connection here."""

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""


_Connection = TypeVar("_Connection", bound=Connection)


class IdleConnections(Generic[_Connection]):
    """Connections in the order in which they are ended for others; no look at all of them.

    A look at a thousand for each new one: 2,500 clients that connected at one moment and said
    nothing held the event loop for half a second of processor time, 1.5 s on a busy machine.
    """

    def __init__(self) -> None:
        # Since when; dictionaries keep their order, and those that turned busy leave when met.
        self._fresh: dict[_Connection, float] = {}
        self._kept: dict[_Connection, float] = {}

    def begun(self, connection: _Connection, now: float) -> None:
        self._fresh[connection] = now

    def answered(self, connection: _Connection, now: float) -> None:
        self.ended(connection)
        self._kept[connection] = now

    def ended(self, connection: _Connection) -> None:
        """Forget one that goes, or that is going."""
        self._fresh.pop(connection, None)
        self._kept.pop(connection, None)

    def take(self, until: float) -> _Connection | None:
        """Return the one missed least and forget it: without a request first, then the oldest.

        `until`: one that began or had its answer later stays: its request may be on its way.
        """
        for connections in (self._fresh, self._kept):
            while connections:
                first, since = next(iter(connections.items()))
                idle = first.idle
                if idle and since > until:
                    break
                del connections[first]
                if idle:
                    return first
        return None


_LINGER_SECONDS = 2.0
"""How long input is read and dropped after a refusal: a connection that is closed with unread input
is reset, and the client never sees why."""

_UNREAD_SECONDS, _UNREAD_STEPS = 10.0, 10
"""Until a client that takes no byte of what is written to it is gone; counted in steps, so that a
pause of this process is one of them (`mm_edge.patience`)."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a listening server.

    Attributes:
        most: connections at one time; each takes some 20 KiB, and up to 100 while a head arrives.
        head_seconds: for a head from its first byte, and for the rest of a body that is discarded.
        kept_seconds: in which an idle connection makes no room for another: its request may be on
            its way, for a round trip around the earth takes that long, and would be lost.
    """

    most: int = 1024
    head_seconds: float = 10.0
    kept_seconds: float = 0.25


class EdgeConfig(uvicorn.Config):
    """uvicorn's configuration with the limits of connections."""

    def __init__(self, app: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(
            app,
            http=GuardedProtocol,
            ws="none",
            h11_max_incomplete_event_size=HEAD_BYTES,
            **options,
        )
        self.connection_limits = limits
        self.idle_connections: IdleConnections[GuardedProtocol] = IdleConnections()


class GuardedProtocol(H11Protocol):
    """Ends connections that send no request, and those that send no HTTP."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(config, EdgeConfig)  # noqa: S101  # edge_server makes no other
        self._limits = config.connection_limits
        self._idle = config.idle_connections
        self.conn = StrictConnection()
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._refused = False

    @property
    def idle(self) -> bool:
        """Whether no request is being answered; a part of one may have come."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; where there are too many, end the one that has been idle longest."""
        super().connection_made(JoinedWrites(transport, self.loop))
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )
        if len(self.connections) > self._limits.most:
            ended = self._idle.take(self.loop.time() - self._limits.kept_seconds)
            if ended is None:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, _TooManyConnectionsError())
                return
            ended.abandon()
        self._idle.begun(self, self.loop.time())

    def connection_lost(self, exc: Exception | None) -> None:
        self._idle.ended(self)
        self._unset_deadline()
        self._unset_unread()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client, whose buffers are full, as long as it reads."""
        super().pause_writing()
        self._look_again(self.transport.get_write_buffer_size(), _UNREAD_STEPS)

    def resume_writing(self) -> None:
        self._unset_unread()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take bytes; what follows a refusal is dropped."""
        if self._refused:
            return
        super().data_received(data)
        if not self.idle or self.transport.is_closing():
            self._unset_deadline()
        elif self._deadline is None and not self._refused:
            self._deadline = self.loop.call_later(self._limits.head_seconds, self._head_is_late)

    def on_response_complete(self) -> None:
        """Note that the connection is idle from now on."""
        if not self._refused:
            self._idle.answered(self, self.loop.time())
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; uvicorn calls it while it handles h11's error."""
        error = sys.exception()
        status = getattr(error, "error_status_hint", HTTPStatus.BAD_REQUEST)
        complete = isinstance(error, HeadTooLargeError)
        if complete or status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            unread = b"" if complete else self.conn.trailing_data[0]
            if len(unread) > HEAD_BYTES and b"\n" not in unread[:HEAD_BYTES]:
                status = HTTPStatus.REQUEST_URI_TOO_LONG
            text = f"at most {HEAD_BYTES} bytes and {MAX_HEADERS} headers are read before the body"
            self._refuse(
                status, InvalidRequestError(f"The head of the request is too large: {text}.")
            )
            return
        self._refuse(
            status, InvalidRequestError(f"The request is not valid HTTP/1.1: {error or msg}.")
        )

    def shutdown(self) -> None:
        if self._refused:
            self.transport.close()
        else:
            super().shutdown()

    def abandon(self) -> None:
        """Close an idle connection without an answer, as servers do with those kept alive."""
        self._refused = True
        self._idle.ended(self)
        self._unset_keepalive_if_required()
        self._close_soon()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle for long, also when its client reads nothing."""
        super().timeout_keep_alive_handler()
        self._close_soon()

    def _should_upgrade(self) -> bool:
        return False

    def _head_is_late(self) -> None:
        self._deadline = None
        if self.cycle is not None and self.conn.our_state is not h11.IDLE:
            # The answer is out, and a refused body is still being sent.
            self.abandon()
            return
        seconds = self._limits.head_seconds
        text = f"The head of the request was not complete within {seconds:g} seconds."
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, InvalidRequestError(text))

    def _refuse(self, status: int, error: GatewayError) -> None:
        """Answer, read on for a moment, close."""
        self._refused = True
        self._idle.ended(self)
        self._unset_deadline()
        self._unset_keepalive_if_required()
        if self.cycle is not None:
            # To a request whose body went wrong its client has left.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self._answer(status, error)
            self.flow.resume_reading()
            self._abort_later()
        else:
            self.transport.close()

    def _answer(self, status: int, error: GatewayError) -> None:
        content = encode(error_response(error).body)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
            *((name.encode(), value.encode()) for name, value in error.headers.items()),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status]),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _close_soon(self) -> None:
        self.transport.close()
        self._abort_later()

    def _abort_later(self) -> None:
        self._unset_deadline()
        self._deadline = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _look_again(self, size: int, steps: int) -> None:
        self._unset_unread()
        self._unread = self.loop.call_later(
            _UNREAD_SECONDS / _UNREAD_STEPS, self._look, size, steps - 1
        )

    def _look(self, before: int, steps: int) -> None:
        size = self.transport.get_write_buffer_size()
        if size < before:
            steps = _UNREAD_STEPS
        if steps:
            self._look_again(size, steps)
        else:
            self.transport.abort()

    def _unset_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _unset_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _TooManyConnectionsError(GatewayError):
    """Every connection is being answered."""

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": "1"}

    def __init__(self) -> None:
        text = "Too many connections are being answered. Try again."
        super().__init__(text, code="rate_limit_exceeded")
