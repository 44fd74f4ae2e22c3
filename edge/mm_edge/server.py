"""uvicorn's server as gateway and router run it: its limits, and no signals of its own."""

import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from mm_api.hosts import host_port
from mm_edge.connection import ConnectionLimits, EdgeConfig
from mm_edge.listening import listening_sockets

_LOG = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 75
"""Longer than clients and proxies keep idle connections (60 s is common): a server that closes
first meets requests already on their way."""
_ACCEPTED_AT_ONCE = 32
"""New connections taken in one turn of the event loop, in some 10 ms; asyncio takes as many as the
backlog holds."""
_BACKLOG = 2048
"""Connections that the kernel holds until they are taken, up to its own net.core.somaxconn."""
_OPEN_FILES = 65_536
"""Requested at the start, up to the container's hard limit: containerd 2 gives 1,024 by default."""
_EXIT_SECONDS = 5
"""For connections that are still open after the last answer."""


class EdgeServer(uvicorn.Server):
    """Leaves signals to us: SIGTERM starts a drain, not an exit."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; new connections come in small groups, however many wait.

        Raises:
            SystemExit: a port is taken, of either family: uvicorn would listen on the other alone.
        """
        host, port = self.config.host, self.config.port
        try:
            opened = sockets or listening_sockets(host, port)
        except OSError as error:
            _LOG.error("cannot listen on %s: %s", host_port(host, port), error)
            raise SystemExit(STARTUP_FAILURE) from error
        await super().startup(opened)
        for server in self.servers:
            for listening in server.sockets:
                with listening.dup() as same:
                    same.listen(_BACKLOG)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def edge_server(app: Any, limits: ConnectionLimits, address: str, port: int) -> EdgeServer:
    """Return the HTTP server of an ASGI application, not yet started; port 0 is any free one.

    Of the files that this process may have it takes connections for half: a request may need one of
    its own, to a server behind. Where no file is left, libuv accepts and closes every connection
    that waits, and its request is lost without a word; a refusal is 503.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = limits.most if files == resource.RLIM_INFINITY else min(limits.most, files // 2)
    if most < limits.most:
        _LOG.warning(
            "at most %d connections at a time instead of %d: this process may open %d files; "
            "raise the limit of the container runtime (LimitNOFILE)",
            *(most, limits.most, files),
        )
    return EdgeServer(
        EdgeConfig(
            app,
            replace(limits, most=most),
            host=address,
            port=port,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_ACCEPTED_AT_ONCE,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_EXIT_SECONDS,
        )
    )


def raise_open_files() -> None:
    """Let this process hold as many connections as its container may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
