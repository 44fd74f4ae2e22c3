"""PURE: h11 with the rules that a server on an open port needs besides the grammar.

A message whose length two parties may read differently is how requests are smuggled past a proxy;
heads and chunks cost processor time by their number, not by their bytes.
"""

from typing import Any

import h11

HEAD_BYTES = 32 * 1024
"""Size of a request line with its headers; proxies in front allow 8 to 32 KiB."""
MAX_HEADERS = 100

_FREE_CHUNKS = 1024
_CHUNK_BYTES = 32
"""Least mean size of a body's further chunks. Each costs the event loop 10 us whatever its size."""

_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class StrictConnection(h11.Connection):
    """The server's side of one connection; raises what h11 raises for a malformed message."""

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
