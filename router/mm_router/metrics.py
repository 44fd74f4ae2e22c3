"""The router's metrics, made from the catalogue in `mm_api.metrics`; nothing a client wrote."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from mm_api.metrics import ROUTER_METRICS, MetricKind

_CATALOGUE = {metric.name: metric for metric in ROUTER_METRICS}


@dataclass(frozen=True, slots=True)
class ModelState:
    """What is shown of a model at a scrape."""

    model: str
    replicas: int
    ejected: int
    outstanding: int
    outstanding_tokens: int
    held: int
    held_seconds: float


class RouterMetrics:
    """Every metric of one router."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._keys: set[str] = set()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._counters = {
            one.name: Counter(one.name, one.help, one.labels, registry=self.registry)
            for one in ROUTER_METRICS
            if one.kind is MetricKind.COUNTER
        }
        self._histograms = {
            one.name: Histogram(
                one.name, one.help, one.labels, buckets=one.buckets, registry=self.registry
            )
            for one in ROUTER_METRICS
            if one.kind is MetricKind.HISTOGRAM
        }

    def count(self, name: str, model: str, *values: str) -> None:
        """Count something of a model; `values` are those of the metric's other labels."""
        self._counters[name].labels(model, *values).inc()

    def count_dropped_spans(self, count: int) -> None:
        self._counters["mm_router_spans_dropped_total"].inc(count)

    def count_key(self, name: str, key: str, *values: str) -> None:
        """Count something of a key, by its name; `values` are those of the other labels."""
        self._counters[name].labels(key, *values).inc()
        self._keys.add(key)

    def keep_keys(self, names: Collection[str]) -> None:
        """Show keys that are gone no more."""
        for key in self._keys - set(names):
            self._remove({"key": key})
        self._keys &= set(names)

    def observe(self, name: str, model: str, seconds: float, *values: str) -> None:
        """Take a time of a model's request; `values` are those of the metric's other labels."""
        self._histograms[name].labels(model, *values).observe(seconds)

    def collect(self, states: Callable[[], Iterable[ModelState]]) -> None:
        """Show the state of each model, read at every scrape."""
        self.registry.register(_StateCollector(states))

    def forget(self, model: str) -> None:
        """Show a model that is gone no more."""
        self._remove({"model": model})
        for histogram in self._histograms.values():
            histogram.remove_by_labels({"model": model})

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def _remove(self, labels: dict[str, str]) -> None:
        for name, counter in self._counters.items():
            if labels.keys() <= set(_CATALOGUE[name].labels):
                counter.remove_by_labels(labels)


class _StateCollector(Collector):
    def __init__(self, states: Callable[[], Iterable[ModelState]]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        states = list(self._states())
        for name, values in (
            ("mm_router_outstanding_requests", [one.outstanding for one in states]),
            ("mm_router_outstanding_tokens", [one.outstanding_tokens for one in states]),
            ("mm_router_replicas", [one.replicas for one in states]),
            ("mm_router_replicas_ejected", [one.ejected for one in states]),
            ("mm_router_held_requests", [one.held for one in states]),
            ("mm_router_oldest_held_seconds", [one.held_seconds for one in states]),
        ):
            gauge = GaugeMetricFamily(name, _CATALOGUE[name].help, labels=("model",))
            for state, value in zip(states, values, strict=True):
                gauge.add_metric((state.model,), value)
            yield gauge
