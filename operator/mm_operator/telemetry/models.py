"""The metrics of each model, made at the scrape from what the operator holds: the leader only."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mm_api.metrics import MODEL_METRICS
from mm_operator.status.series import Sample

Source = Callable[[], Iterable[Sample]]
"""Returns the samples of every model; none while this replica does not lead."""


class ModelCollector(Collector):
    """Every metric of `MODEL_METRICS`, with one series for each sample of the source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._gathered: tuple[Sample, ...] = ()

    def gather(self) -> None:
        """Take the samples as they are now: the writer of the text reads nothing live."""
        self._gathered = tuple(self._source())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families; each has a help text even while it has no series."""
        families = {
            metric.name: GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            for metric in MODEL_METRICS
        }
        for sample in self._gathered:
            families[sample.metric].add_metric(sample.labels, sample.value)
        yield from families.values()
