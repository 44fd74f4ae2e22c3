"""Requests to replicas over HTTP: what never reached one, and what may have run there."""

import io
import socket
from collections.abc import Iterable, Mapping

import aiohttp

from mm_api.contract import REPLAY_HEADER

_CONNECT_SECONDS = 2.0
"""Within a cluster a connection takes a millisecond; SYN is sent again after 1 s."""

_IDLE_SECONDS = 15.0
"""Below the 75 s after which a gateway ends idle connections: none is used while it ends."""

_PROBE_SECONDS = (10, 5, 3)
"""Silence before TCP probes, between two of them, and how many go unanswered: the connection to a
node that is gone ends after 25 s, however long an answer may take."""

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""RFC 9110, 7.6.1; `expect` was met when the body was read."""

_OWN = frozenset({"content-length", "date", "host", REPLAY_HEADER})
"""Written for each connection; only the router itself replays."""


class UnreachableError(Exception):
    """No connection: the replica has not seen the request."""


class BrokenError(Exception):
    """The connection ended before the answer did: the request may have run."""


class Answer:
    """The head of an answer, with the headers that are passed on; its body follows."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = passed_on(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in response.raw_headers
        )

    async def next_bytes(self) -> bytes:
        """Return what came since, empty at the end; BrokenError: the connection ended too early."""
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise BrokenError(type(error).__name__) from error

    def close(self) -> None:
        """End the connection, unless the answer is complete: then it is kept for the next."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


class Upstream:
    """Connections to replicas."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the edge bounds them: each is of a client's connection
                keepalive_timeout=_IDLE_SECONDS,
                socket_factory=_probed_socket,
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
            trust_env=False,
        )

    async def send(
        self, replica: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Send a request; return when the head of its answer has come.

        Raises:
            UnreachableError: no connection was made.
            BrokenError: one was, and ended.
        """
        try:
            response = await self._session.post(
                f"http://{replica}{target}",
                headers=headers,
                data=io.BytesIO(body),  # sent in pieces: megabytes at once would hold the loop
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise UnreachableError(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise BrokenError(type(error).__name__) from error
        return Answer(response)

    async def close(self) -> None:
        await self._session.close()


def passed_on(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers of a message that are for its receiver, names in lower case."""
    pairs = [(name.lower(), value) for name, value in headers]
    named = {
        token.strip().lower()
        for name, value in pairs
        if name == "connection"
        for token in value.split(",")
    }
    return {
        name: value for name, value in pairs if name not in _HOP_BY_HOP | _OWN and name not in named
    }


def _probed_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    connection = socket.socket(family, kind, protocol)
    idle, interval, count = _PROBE_SECONDS
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count)
    return connection
