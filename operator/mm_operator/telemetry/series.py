"""Metrics of each model, made at the scrape from what the operator holds: the leader only."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from mm_api.metrics import Metric, MetricKind
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
