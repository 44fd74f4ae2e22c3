"""Metrics that a model's process registers with Triton, and ends before Triton ends the process.

The stub of Triton 2.51 frees the model after it has let go of the memory that it shares with the
server. Metrics and families lie in that memory: one that lives until then takes the process down
with a segmentation fault, at each stop of a pod.

Triton counts the requests that wait for a model (`nv_inference_pending_request_count`) and those
that are over, and none that a model has taken up: one that fetches an image, or waits for an
encoder in another pod, is in neither. A server that is stopped meanwhile refuses the next step of
its ensemble, so the drain has to know of it.
"""

import threading
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import triton_python_backend_utils as pb_utils

from mm_api.metrics import EXECUTING_REQUESTS, Metric
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


class Executing:
    """The gauge of one model instance, by what the model does; called from any thread."""

    def __init__(self, stage: str) -> None:
        self._lock = threading.Lock()
        self._metric = gauges(EXECUTING_REQUESTS).series({"stage": stage})
        self._count = 0

    def entered(self) -> None:
        self._change(1)

    def left(self) -> None:
        """Stop counting a request, after its response."""
        self._change(-1)

    def _change(self, by: int) -> None:
        with self._lock:
            self._count += by
            self._metric.set(self._count)
