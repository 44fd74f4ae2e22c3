"""What the server container of the pod says on its metrics port, for the gateway's own page.

A pod has one page to scrape: the gateway's. A server that is silent (starting, restarting) costs
its part of the page and nothing else.
"""

import asyncio
from http import HTTPStatus

import httpcore

_SECONDS = 2.0
"""A healthy server answers in milliseconds, and scrapers wait for 10 s as a rule."""


class ServerMetrics:
    """Reads the page of one server, at HOST:PORT; empty: there is none."""

    def __init__(self, address: str) -> None:
        self._url = f"http://{address}/metrics" if address else ""

    async def read(self) -> bytes:
        """Return the page, empty when there is no answer in time."""
        if not self._url:
            return b""
        try:
            # A connection a scrape: one that is kept would have to survive the server's restarts.
            async with asyncio.timeout(_SECONDS), httpcore.AsyncConnectionPool() as pool:
                response = await pool.request("GET", self._url)
        except (TimeoutError, OSError, httpcore.NetworkError, httpcore.ProtocolError):
            return b""
        return response.content if response.status == HTTPStatus.OK else b""


NO_SERVER = ServerMetrics("")
"""A gateway that stands alone, as in tests."""
