"""The library's HTTP client, whose end is the end of its connections."""

import asyncio
import contextlib
import socket
from weakref import WeakSet

import aiohttp
from aiohttp.connector import AddrInfoType
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

_END_SECONDS = 1.0
"""For the last messages of TLS with a server that does not answer them."""


class RestClient(RESTClientObject):
    """Closes with the connections of cancelled requests too.

    aiohttp waits for connections of its pool and of requests that run. One whose request was
    cancelled ends its TLS afterwards: a loop that is closed before leaves the socket open.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self._sockets: WeakSet[socket.socket] = WeakSet()

    async def close(self) -> None:
        """Close every connection, and wait until the sockets are closed, at most a second."""
        await super().close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                # A transport has no public way to wait for its end.
                while any(one.fileno() != -1 for one in self._sockets):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=self.maxsize, ssl=self.ssl_context, socket_factory=self._socket
        )

    def _socket(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made
