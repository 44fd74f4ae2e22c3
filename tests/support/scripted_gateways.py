"""Gateways of pods that do not run: their metrics, as a real Prometheus scrapes them from here."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from mm_api.metrics import GATEWAY_METRICS, Metric, MetricKind
from support.http_servers import served_in_threads


@dataclass
class ScriptedGateways:
    """The series of every pod; a test writes them, Prometheus reads them.

    Attributes:
        port: where the exposition is.
        pods: (namespace, pod) -> value by metric; counters grow by their rate with every scrape.
    """

    port: int = 0
    pods: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    latency: dict[tuple[str, str], float] = field(default_factory=dict)
    broken: str = ""
    _totals: dict[tuple[str, str, str], float] = field(default_factory=dict)
    _turn: threading.RLock = field(default_factory=threading.RLock)
    """A scrape comes between two changes, never into one."""

    def serve(self, namespace: str, pod: str, *, latency: float = 0.1, **values: float) -> None:
        """Let a pod report: gauges as given, counters growing by so much at each scrape."""
        with self._turn:
            self.latency[namespace, pod] = latency
            self.pods[namespace, pod] = {f"mm_{name}": value for name, value in values.items()}

    def serve_only(self, namespace: str, *pods: str, **values: float) -> None:
        """Let these pods report the same, and no others, from one scrape to the next."""
        with self._turn:
            self.pods.clear()
            for pod in pods:
                self.serve(namespace, pod, **values)

    def text(self) -> str:
        with self._turn:
            return self.broken or "".join(self._families())

    def _families(self) -> Iterator[str]:
        for metric in GATEWAY_METRICS:
            lines = [line for pod in sorted(self.pods) for line in self._lines(metric, pod)]
            yield f"# TYPE {metric.name} {metric.kind.value}\n" + "".join(lines)

    def _lines(self, metric: Metric, pod: tuple[str, str]) -> Iterator[str]:
        name, kind = metric.name, metric.kind
        own = f'namespace="{pod[0]}",pod="{pod[1]}",model="m"'
        values = self.pods[pod]
        if name == "mm_work_seconds":
            for unit in ("request", "image_token", "text_token", "output_token"):
                if f"mm_work_{unit}" in values:
                    yield f'{name}{{{own},unit="{unit}"}} {values[f"mm_work_{unit}"]}\n'
        elif kind is MetricKind.GAUGE:
            yield f"{name}{{{own}}} {values.get(name, 0.0)}\n"
        elif kind is MetricKind.COUNTER:
            yield f"{name}{{{own}{_extra(metric.labels)}}} {self._grown(name, pod)}\n"
        else:
            total = self._grown(name, pod)
            for bound in (*metric.buckets, float("inf")):
                count = total if bound >= self.latency[pod] else 0.0
                text = "+Inf" if bound == float("inf") else str(bound)
                yield f'{name}_bucket{{{own},le="{text}"}} {count}\n'
            yield f"{name}_count{{{own}}} {total}\n"

    def _grown(self, name: str, pod: tuple[str, str]) -> float:
        pace = self.pods[pod].get(name, self.pods[pod].get("mm_requests_accepted_total", 0.0))
        key = (*pod, name)
        self._totals[key] = self._totals.get(key, 0.0) + pace
        return self._totals[key]


def _extra(names: tuple[str, ...]) -> str:
    known = {"code": "200", "reason": "queue_full"}
    return "".join(f',{name}="{known[name]}"' for name in names if name in known)


@contextmanager
def scripted_gateways() -> Iterator[ScriptedGateways]:
    gateways = ScriptedGateways()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name is the library's
            body = gateways.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

    with served_in_threads(Handler) as url:
        gateways.port = int(url.rpartition(":")[2])
        yield gateways
