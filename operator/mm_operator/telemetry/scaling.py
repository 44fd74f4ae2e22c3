"""The autoscaler's metrics of each model, made at the scrape: the leader only."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from mm_api.metrics import SCALING_METRICS, MetricKind


class ScalingSample(NamedTuple):
    """One value of a metric of `mm_api.metrics.SCALING_METRICS` that has labels."""

    metric: str
    labels: tuple[str, ...]
    value: float


ScalingSource = Callable[[], Iterable[ScalingSample]]
"""Returns the samples of every model; none while this replica does not lead."""


class ScalingCollector(Collector):
    """Every labelled metric of `SCALING_METRICS`; the series of a model go with it."""

    def __init__(self, source: ScalingSource) -> None:
        self._source = source
        self._gathered: tuple[ScalingSample, ...] = ()

    def gather(self) -> None:
        """Take the samples as they are now: the writer of the text reads nothing live."""
        self._gathered = tuple(self._source())

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the families."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for metric in SCALING_METRICS:
            if metric.labels:
                counts = metric.kind is MetricKind.COUNTER
                family = CounterMetricFamily if counts else GaugeMetricFamily
                families[metric.name] = family(metric.name, metric.help, labels=metric.labels)
        for sample in self._gathered:
            families[sample.metric].add_metric(sample.labels, sample.value)
        yield from families.values()
