"""The metrics port of a server container: tritonserver's own text, and what its supervisor knows.

tritonserver has no metric of its CUDA pool and cannot count its own deaths. It says once in its
life that the pool is full, in its log; whoever reads the log can count that.
"""

import http.client
import logging
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from mm_api.documents.serving_plan import MemoryPools
from mm_api.metrics import (
    GPU_SHARING,
    POOL_FALLBACKS,
    POOL_PLANNED_BYTES,
    SERVER_RESTARTS,
    Metric,
)
from mm_runtime.errors import ServerFailedError
from mm_runtime.launch.health import get
from mm_runtime.settings import Ports

log = logging.getLogger(__name__)

POOL_IS_FULL = "falling back to pinned system memory"
"""Beginning of what AllocatedMemory logs, once a process (triton core, src/memory.cc)."""

PATH = "/metrics"


class Exposition:
    """Answers `GET /metrics` while the context is open, also when no server runs.

    Args:
        shown: where scrapers ask.
        inner: where tritonserver shows its own metrics, on loopback.
        pools: what the server was told to reserve.

    Raises:
        ServerFailedError: the port is taken.
    """

    def __init__(self, shown: Ports, inner: Ports, pools: MemoryPools) -> None:
        self._registry = CollectorRegistry()
        self._restarts = self._counter(SERVER_RESTARTS)
        self._fallbacks = self._counter(POOL_FALLBACKS)
        planned = self._gauge(POOL_PLANNED_BYTES)
        self._sharing = self._gauge(GPU_SHARING)
        planned.labels("cuda").set(pools.cuda_bytes)
        planned.labels("pinned").set(pools.pinned_bytes)
        self._pools = pools
        self._inner = inner.metrics
        try:
            self._server = ThreadingHTTPServer((shown.address, shown.metrics), self._handler())
        except OSError as error:
            raise ServerFailedError(
                f"The metrics port {shown.metrics} of {shown.address} cannot be used: {error}."
                " Give another one with --metrics-port."
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def restarted(self) -> None:
        """Count a death that is followed by a start."""
        self._restarts.inc()

    def shares(self, mode: str) -> None:
        """Tell how the server's processes share a GPU."""
        self._sharing.clear()
        self._sharing.labels(mode).set(1)

    def watch(self, forward: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function for the server's lines that counts what matters, and passes all on."""

        def line(text: str) -> None:
            forward(text)
            if POOL_IS_FULL in text:
                self._fallbacks.inc()
                log.error(
                    "the CUDA pool of %d bytes is full: requests fail or slow down. More requests"
                    " were inside than the plan assumed, or it was set too small: raise"
                    " spec.runtime.memoryPools.cuda, or set it to Auto.",
                    self._pools.cuda_bytes,
                )

        return line

    def render(self) -> bytes:
        """Return the whole text: the server's, when it answers, and ours."""
        answer = get("127.0.0.1", self._inner, PATH)
        theirs = answer[1] if answer and answer[0] == http.client.OK else ""
        return theirs.encode() + generate_latest(self._registry)

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self._registry)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.help, metric.labels, registry=self._registry)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        exposition = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10  # seconds: a client that never sends its request must not stay

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != PATH:
                    self.send_error(http.client.NOT_FOUND)
                    return
                body = exposition.render()
                self.send_response(http.client.OK)
                self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base's)
                """Say nothing: a scrape every few seconds is no news."""

        return Handler


def free_port() -> int:
    """Return a port of loopback that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])
