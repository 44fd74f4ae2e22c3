"""The operator's metrics, made from the catalogue in `mm_api.metrics`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from mm_api.conditions import ConditionType
from mm_api.metrics import MODEL_METRICS, OPERATOR_METRICS, SCALING_METRICS, Metric, MetricKind
from mm_operator.status.events import finished_steps
from mm_operator.status.series import Sample

Source = Callable[[], Iterable[Sample]]
"""Returns the samples of every model; none while this replica does not lead."""


class SeriesCollector(Collector):
    """One series for each sample of the source; the series of a model go with it."""

    def __init__(self, metrics: Iterable[Metric], source: Source) -> None:
        self._metrics = tuple(metrics)
        self._source = source
        self._gathered: tuple[Sample, ...] = ()

    def gather(self) -> None:
        """Take the samples as they are now: the writer of the text reads nothing live."""
        self._gathered = tuple(self._source())

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the families; each has a help text even while it has no series."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for metric in self._metrics:
            counts = metric.kind is MetricKind.COUNTER
            family = CounterMetricFamily if counts else GaugeMetricFamily
            families[metric.name] = family(metric.name, metric.help, labels=metric.labels)
        for sample in self._gathered:
            families[sample.metric].add_metric(sample.labels, sample.value)
        yield from families.values()


class Metrics:
    """Every metric of one operator process, by the name that the catalogue gives it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._collectors: list[SeriesCollector] = []
        self.counters: dict[str, Counter] = {}
        self.gauges: dict[str, Gauge] = {}
        self.histograms: dict[str, Histogram] = {}
        for metric in (*OPERATOR_METRICS, *(one for one in SCALING_METRICS if not one.labels)):
            self._make(metric)
        # Exposed before the first event: a rate over a series that begins at 1 misses that one.
        for outcome in ("succeeded", "failed"):
            self.histograms["mm_operator_build_seconds"].labels(outcome)
        for origin in ("model", "store"):
            self.counters["mm_operator_engine_reuses_total"].labels(origin)
        for reason in ("QueueFull", "Refused"):
            self.counters["mm_operator_events_dropped_total"].labels(reason)
        for result in ("ok", "error"):
            self.counters["mm_operator_reconcile_total"].labels(result)
        self.requested = self.counting("mm_operator_api_requests_total")

    def counting(self, name: str) -> Callable[..., None]:
        """Return what counts one more of a counter's labels, which it is called with."""
        return lambda *values: self.counters[name].labels(*values).inc()

    def reconciled(self, result: str, seconds: float) -> None:
        """Count one reconcile: `ok` or `error`."""
        self.counters["mm_operator_reconcile_total"].labels(result).inc()
        self.histograms["mm_operator_reconcile_seconds"].observe(seconds)

    def prices(self, of_hours: Mapping[str, float]) -> None:
        for product, price in of_hours.items():
            self.gauges["mm_gpu_hour_price"].labels(product).set(price)

    def models(self, ready: int, total: int) -> None:
        """Show how many models there are, by whether they are Ready."""
        gauge = self.gauges["mm_operator_models"]
        gauge.labels("true").set(ready)
        gauge.labels("false").set(total - ready)

    def collect_models(self, source: Source) -> None:
        """Add the metrics of each model, read from `source` at every scrape."""
        self._collect(SeriesCollector(MODEL_METRICS, source))

    def collect_scaling(self, source: Source) -> None:
        """Add what the autoscaler says of each model, read from `source` at every scrape."""
        self._collect(SeriesCollector((one for one in SCALING_METRICS if one.labels), source))

    def snapshot(self) -> Callable[[], bytes]:
        """Return what writes every metric in Prometheus' text format, with models as they are now.

        Writing the 8,000 lines of 1,000 models takes 0.1 s and may be done in another thread.
        """
        for collector in self._collectors:
            collector.gather()
        return lambda: generate_latest(self.registry)

    def _collect(self, collector: SeriesCollector) -> None:
        self._collectors.append(collector)
        self.registry.register(collector)

    def _make(self, metric: Metric) -> None:
        name, words, registry = metric.name, metric.help, self.registry
        match metric.kind:
            case MetricKind.COUNTER:
                self.counters[name] = Counter(name, words, metric.labels, registry=registry)
            case MetricKind.GAUGE:
                self.gauges[name] = Gauge(name, words, metric.labels, registry=registry)
            case MetricKind.HISTOGRAM:
                self.histograms[name] = Histogram(
                    name, words, metric.labels, buckets=metric.buckets, registry=registry
                )


_OWN_STORE = "store"


def count_builds(
    metrics: Metrics, before: Mapping[str, Any], after: Mapping[str, Any], now: datetime
) -> None:
    """Count the steps, ends and reuses between two statuses of a model in a row.

    A status is written once for each change and outlives the operator: what is counted from it is
    counted once, whatever restarts in between.
    """
    old, new = before.get("build", {}), after.get("build", {})
    for step, seconds in finished_steps(old, new).items():
        metrics.histograms["mm_operator_build_step_seconds"].labels(step).observe(seconds)
    same = old.get("fingerprint") == new.get("fingerprint")
    if same and old.get("phase") == new.get("phase"):
        return
    origin, phase, started = new.get("reusedFrom"), new.get("phase"), new.get("startedAt")
    counters = metrics.counters
    if phase == "Succeeded" and origin:
        origin = _OWN_STORE if origin == _OWN_STORE else "model"
        counters["mm_operator_engine_reuses_total"].labels(origin).inc()
    elif phase in {"Succeeded", "Failed"}:
        if started:  # otherwise its pod was never seen
            seconds = (now - datetime.fromisoformat(started)).total_seconds()
            histogram = metrics.histograms["mm_operator_build_seconds"]
            histogram.labels(phase.lower()).observe(seconds)
        if phase == "Succeeded":
            counters["mm_operator_engine_bytes_total"].inc(new.get("storedBytes", 0))
        else:
            step = new.get("failedStep", "unknown")
            counters["mm_operator_build_failures_total"].labels(step, _reason(after)).inc()


def _reason(status: Mapping[str, Any]) -> str:
    found = (
        condition["reason"]
        for condition in status.get("conditions", ())
        if condition["type"] == ConditionType.ENGINE_BUILT
    )
    return next(found, "Unknown")
