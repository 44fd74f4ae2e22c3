"""The metrics port of a server container: the server's own text, and what its supervisor knows.

tritonserver has no metric of its CUDA pool and cannot count its own deaths. It says once in its
life that a pool is full, in its log, so this is counted from the log. Prometheus scrapes the
metrics, the operator for the same facts as a `ServerState`.

Histograms of Triton's Python models come as a counter a bucket
(`mm_runtime.serving.metrics.histograms`); here they are added up, and the type is stated.
"""

import http.client
import logging
import math
import random
import re
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from mm_api.contract import METRICS_PATH, SERVER_LIVE, SERVER_READY
from mm_api.documents.evaluation import EvaluationReport
from mm_api.documents.server_state import PATH as STATE
from mm_api.documents.server_state import (
    PROBLEM_CHARACTERS,
    Pool,
    PoolState,
    Role,
    ServerState,
)
from mm_api.documents.serving_plan import MemoryPools
from mm_api.metrics import (
    GPU_SHARING,
    POOL_FALLBACKS,
    POOL_PLANNED_BYTES,
    SERVER_METRICS,
    SERVER_RESTARTS,
    Metric,
    MetricKind,
)
from mm_edge.listening import listening_sockets
from mm_runtime.base.faults import NO_KERNELS
from mm_runtime.errors import ServerFailedError
from mm_runtime.launch.health import get
from mm_runtime.settings import Ports

_SAMPLE = re.compile(r"^(?:# (?:HELP|TYPE) )?(?P<name>\w+?)_(?P<ending>bucket|sum)\b(?P<rest>.*)$")
_VALUE = re.compile(r"^(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")
_BOUND = re.compile(r'(?:^|,)le="(?P<bound>[^"]*)"')

OWN, TRITONS = "model", "triton_model"
"""Labels of every series: our model, so that all can be summed and joined, and Triton's own."""

_LABELLED = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?(?P<rest>\s.*)$")
"""A line of the text format: what follows the last brace is value and time."""

_TRITONS_MODEL = re.compile(r'(?P<before>^|,)\s*model="')
"""Inside a label's value a quote has a backslash before it, so this is a label's beginning."""


def with_histograms(text: str, metrics: Iterable[Metric]) -> str:
    """Return the text with these metrics as histograms, after everything else."""
    wanted = {metric.name: metric for metric in metrics}
    kept: list[str] = []
    buckets: dict[str, dict[str, dict[float, float]]] = {name: defaultdict(dict) for name in wanted}
    sums: dict[str, dict[str, float]] = {name: {} for name in wanted}
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found is None or found["name"] not in wanted:
            kept.append(line)
        elif not line.startswith("#") and (sample := _VALUE.match(found["rest"])):
            name, labels = found["name"], sample["labels"] or ""
            if bound := _BOUND.search(labels):
                others = _BOUND.sub("", labels).lstrip(",")
                buckets[name][others][float(bound["bound"])] = float(sample["value"])
            else:
                sums[name][labels] = float(sample["value"])
    for name, metric in wanted.items():
        if buckets[name]:
            kept += [f"# HELP {name} {metric.help}", f"# TYPE {name} histogram"]
        for labels, counts in buckets[name].items():
            kept += _series(name, labels, counts, sums[name].get(labels, 0.0))
    return "".join(f"{line}\n" for line in kept)


def _series(name: str, labels: str, counts: dict[float, float], total: float) -> list[str]:
    lines, passed = [], 0.0
    before = f"{labels}," if labels else ""
    for bound in sorted(counts):
        passed += counts[bound]
        le = _text(bound)
        lines.append(f'{name}_bucket{{{before}le="{le}"}} {_text(passed)}')
    braces = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_count{braces} {_text(passed)}")
    lines.append(f"{name}_sum{braces} {_text(total)}")
    return lines


def _text(value: float) -> str:
    return "+Inf" if value == math.inf else repr(value)


def one_label_set(text: str, model: str) -> str:
    """Return a Prometheus text whose every sample says whose it is."""
    return "".join(f"{_labelled(line, model)}\n" for line in text.splitlines())


def _labelled(line: str, model: str) -> str:
    sample = None if line.startswith("#") else _LABELLED.match(line)
    if sample is None:
        return line
    theirs = _TRITONS_MODEL.sub(rf'\g<before>{TRITONS}="', (sample["labels"] or "").rstrip(", "))
    labels = ",".join(filter(None, (theirs, f'{OWN}="{model}"')))
    return f"{sample['name']}{{{labels}}}{sample['rest']}"


log = logging.getLogger(__name__)

FULL_POOLS: dict[Pool, str] = {
    "cuda": "falling back to pinned system memory",
    "pinned": "failed to allocate pinned system memory, falling back",
}
"""What triton core logs, once a process each: AllocatedMemory in src/memory.cc for CUDA memory,
PinnedMemoryManager::AllocInternal in src/pinned_memory_manager.cc. Without any pool, as on a
machine without a GPU, the latter says so between its two halves, and that is no full pool."""

ADVICE: dict[Pool, str] = {
    "cuda": "requests fail or slow down. More requests were inside than the plan assumed: raise"
    " spec.runtime.memoryPools.cuda, or set it to Auto.",
    "pinned": "copies between host and GPU slow down. Raise spec.runtime.memoryPools.pinned.",
}

HISTOGRAMS = tuple(metric for metric in SERVER_METRICS if metric.kind is MetricKind.HISTOGRAM)
"""Triton's models publish them bucket by bucket."""

PAGE_SECONDS = 8.0
"""For the server's part of the page. One that is dead refuses at once; one that waits for a disk or
a core is waited for nearly as long as Prometheus waits (10 s), for without it the page has gaps."""

INNER_PORTS = range(16_000, 20_000)
"""For the server's own metrics. Below those that Linux gives to outgoing connections (32768): the
server binds its port when its models are loaded, long after it was chosen."""


def _server(opened: socket.socket, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(opened.getsockname()[:2], handler, bind_and_activate=False)
    server.socket.close()
    server.socket = opened
    server.daemon_threads = True
    return server


class Exposition:
    """Answers `GET /metrics` and `GET /state` while the context is open, also when no server runs.

    `inner`: where the server shows its own metrics, on loopback, at `page`.

    Raises:
        ServerFailedError: the port is taken.
    """

    def __init__(
        self,
        shown: Ports,
        inner: Ports,
        pools: MemoryPools,
        model: str,
        *,
        page: str = METRICS_PATH,
        ready: Callable[[], bool] = lambda: False,
        alive: Callable[[], bool] = lambda: True,
        role: Role = Role.SERVER,
        evaluation: Callable[[], EvaluationReport | None] = lambda: None,
        warm_up_problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        # A series with the time of creation beside every counter is noise to Prometheus 2.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._restarts = self._counter(SERVER_RESTARTS)
        self._fallbacks = self._counter(POOL_FALLBACKS)
        self._full: dict[Pool, int] = dict.fromkeys(FULL_POOLS, 0)
        planned = self._gauge(POOL_PLANNED_BYTES)
        self._sharing = self._gauge(GPU_SHARING)
        self._sharing_problem = self._kernel_problem = ""
        self._planned: dict[Pool, int] = {
            "cuda": pools.cuda_bytes,
            "pinned": pools.pinned_bytes,
        }
        for pool, size in self._planned.items():
            planned.labels(pool).set(size)
            self._fallbacks.labels(pool)  # shown before the first one, so that a rate begins at 0
        self._model = model
        self._role = role
        self._inner = inner.metrics
        self._page = page
        self._ready, self._alive = ready, alive
        self._evaluation, self._warm_up_problem = evaluation, warm_up_problem
        address = shown.page_address or shown.address
        try:
            opened = listening_sockets(address, shown.metrics)
        except OSError as error:
            raise ServerFailedError(
                f"The metrics port {shown.metrics} of {address} cannot be used: {error}."
                " Give another one with --metrics-port."
            ) from error
        handler = self._handler()
        self._servers = [_server(one, handler) for one in opened]
        self._threads = [
            threading.Thread(target=one.serve_forever, name="metrics", daemon=True)
            for one in self._servers
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()

    def restarted(self) -> None:
        """Count a restart; what the server before it lacked may be there now."""
        self._restarts.inc()
        self._kernel_problem = ""

    def shares(self, mode: str, problem: str = "") -> None:
        """Report how the server's processes share a GPU, and why not as planned."""
        self._sharing.clear()
        self._sharing.labels(mode).set(1)
        self._sharing_problem = problem

    def watch(self, forward: Callable[[str], None]) -> Callable[[str], None]:
        """Return a function for the server's lines that counts what matters, and passes all on."""

        def line(text: str) -> None:
            forward(text)
            for pool, words in FULL_POOLS.items():
                if words in text:
                    self._fallbacks.labels(pool).inc()
                    self._full[pool] += 1
                    size = self._planned[pool]
                    log.error("the %s pool of %d bytes is full: %s", pool, size, ADVICE[pool])
            if NO_KERNELS in text:
                self._kernel_problem = text.partition(f"{NO_KERNELS}: ")[2][:PROBLEM_CHARACTERS]

        return line

    def render(self) -> bytes:
        """Return the complete text: the server's, if it answers, and ours, under one label set."""
        answer = get("127.0.0.1", self._inner, self._page, seconds=PAGE_SECONDS)
        theirs = answer[1] if answer and answer[0] == http.client.OK else ""
        text = with_histograms(theirs, HISTOGRAMS) + generate_latest(self._registry).decode()
        return one_label_set(text, self._model).encode()

    def state(self) -> ServerState:
        """Return the state that the operator fetches."""
        return ServerState(
            role=self._role,
            pools=[
                PoolState(pool=pool, planned_bytes=size, full=self._full[pool])
                for pool, size in self._planned.items()
            ],
            sharing_problem=self._sharing_problem,
            kernel_problem=self._kernel_problem,
            warm_up_problem=self._warm_up_problem(),
            evaluation=self._evaluation(),
        )

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self._registry)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.help, metric.labels, registry=self._registry)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        pages: dict[str, tuple[str, Callable[[], bytes | None]]] = {
            METRICS_PATH: (CONTENT_TYPE_PLAIN_0_0_4, self.render),
            STATE: ("application/json", lambda: self.state().to_json().encode()),
            SERVER_LIVE: ("text/plain", lambda: b"alive" if self._alive() else None),
            SERVER_READY: ("text/plain", lambda: b"ready" if self._ready() else None),
        }

        class Handler(BaseHTTPRequestHandler):
            timeout = 10  # seconds: a client that never sends its request must not stay

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if (page := pages.get(path)) is None:
                    self.send_error(http.client.NOT_FOUND)
                    return
                kind, body = page[0], page[1]()
                if body is None:
                    self.send_error(http.client.SERVICE_UNAVAILABLE)
                    return
                self.send_response(http.client.OK)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base's)
                """Log nothing: a scrape comes every few seconds."""

        return Handler


def free_port() -> int:
    """Return a free port of loopback that the kernel assigns to no other process."""
    for port in random.SystemRandom().sample(INNER_PORTS, len(INNER_PORTS)):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise ServerFailedError(
        f"None of the ports {INNER_PORTS} of 127.0.0.1 is free: end what has them."
    )
