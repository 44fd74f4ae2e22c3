"""The gateway's metrics, made from the catalogue in `mm_api.metrics`.

Labels hold the served model's name, names of keys, statuses and reasons; never anything a client
wrote.
"""

from collections.abc import Collection

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from mm_api.metrics import GATEWAY_METRICS, Metric, MetricKind
from mm_runtime.gateway.admission.slots import Load
from mm_runtime.gateway.phase import Phase


class GatewayMetrics:
    """All series of one gateway; one model, one registry."""

    def __init__(self, model: str) -> None:
        # A series with the time of creation beside every counter is noise to Prometheus 2.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._model = model
        self._keys: set[str] = set()
        made = {metric.name: _make(metric, self.registry) for metric in GATEWAY_METRICS}
        self._counters = {n: m for n, m in made.items() if isinstance(m, Counter)}
        self._gauges = {n: m for n, m in made.items() if isinstance(m, Gauge)}
        # The series themselves: there is an observation for each token of a stream, and looking one
        # up costs more than counting in it. Exposed before the first event, so that a rate over it
        # starts at zero.
        series = {
            metric.name: made[metric.name].labels(model)
            for metric in GATEWAY_METRICS
            if metric.labels == ("model",)
        }
        self._histograms = {n: m for n, m in series.items() if isinstance(m, Histogram)}
        self._totals = {n: m for n, m in series.items() if isinstance(m, Counter)}
        self._levels = {n: m for n, m in series.items() if isinstance(m, Gauge)}

    def observe_load(self, load: Load) -> None:
        self._levels["mm_requests_running"].set(load.running)
        self._levels["mm_requests_waiting"].set(load.waiting)
        self._levels["mm_tokens_waiting"].set(load.waiting_tokens)

    def observe(self, name: str, seconds: float) -> None:
        self._histograms[name].observe(seconds)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter that has no label but the model."""
        self._totals[name].inc(amount)

    def count_finished(self, status: int) -> None:
        self._counters["mm_requests_total"].labels(self._model, str(status)).inc()

    def count_rejected(self, reason: str) -> None:
        self._counters["mm_requests_rejected_total"].labels(self._model, reason).inc()

    def count_key(self, name: str, key: str, amount: int = 1) -> None:
        self._keys.add(key)
        self._counters[name].labels(self._model, key).inc(amount)

    def count_key_rejected(self, key: str, reason: str) -> None:
        self._keys.add(key)
        self._counters["mm_key_rejected_total"].labels(self._model, key, reason).inc()

    def keep_keys(self, names: Collection[str]) -> None:
        """Remove the series of tokens that are gone: names come and go without end."""
        for key in self._keys.difference(names):
            for name in ("mm_key_requests_total", "mm_key_tokens_total", "mm_key_rejected_total"):
                self._counters[name].remove_by_labels({"key": key})
        self._keys.intersection_update(names)

    def set_work_seconds(self, unit: str, seconds: float) -> None:
        self._gauges["mm_work_seconds"].labels(self._model, unit).set(seconds)

    def set_phase(self, phase: Phase) -> None:
        for one in Phase:
            self._gauges["mm_pod_phase"].labels(self._model, one.value).set(one is phase)

    def render(self) -> bytes:
        return generate_latest(self.registry)


def _make(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    match metric.kind:
        case MetricKind.COUNTER:
            return Counter(metric.name, metric.help, metric.labels, registry=registry)
        case MetricKind.GAUGE:
            return Gauge(metric.name, metric.help, metric.labels, registry=registry)
        case MetricKind.HISTOGRAM:
            return Histogram(
                metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets
            )
