"""Metrics that a model's process registers with Triton, and ends before Triton ends the process.

The stub of Triton 2.51 frees the model after it has let go of the memory that it shares with the
server. Metrics and families lie in that memory: one that lives until then takes the process down
with a segmentation fault, at each stop of a pod.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import triton_python_backend_utils as pb_utils

from mm_api.metrics import Metric
from mm_runtime.serving.metrics.collected import Changes, Counter, Gauge, Series

Kind = TypeVar("Kind", bound=Series)


class Family(Generic[Kind]):
    """Metrics of one name; Triton's own object, which keeps them on the page, is kept here."""

    def __init__(self, name: str, description: str, kind: type[Kind]) -> None:
        families = pb_utils.MetricFamily  # there only once Triton has begun to load a model
        self._triton: Any = families(
            name=name, description=description, kind=getattr(families, kind.triton_kind)
        )
        self._kind = kind
        self._series: list[Kind] = []
        _families.append(self)

    def series(self, labels: Mapping[str, str]) -> Kind:
        """Register a metric of these labels."""
        found = self._kind(self._triton.Metric(labels=dict(labels)), _changes)
        self._series.append(found)
        return found

    def end(self) -> None:
        for one in self._series:
            one.end()
        self._triton = None


_families: list[Family[Any]] = []
"""In this process, which is one instance of one model."""

_changes = Changes()


def counters(metric: Metric, ending: str = "") -> Family[Counter]:
    return Family(metric.name + ending, metric.help, Counter)


def gauges(metric: Metric) -> Family[Gauge]:
    return Family(metric.name, metric.help, Gauge)


def end_metrics() -> None:
    """End all metrics: the last thing that a model's `finalize` does."""
    _changes.close()
    for one in _families:
        one.end()
    _families.clear()
