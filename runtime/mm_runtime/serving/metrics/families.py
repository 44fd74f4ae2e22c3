"""Metrics that a model's process registers with Triton, and ends before Triton ends the process.

The stub of Triton 2.51 frees the model after it has let go of the memory that it shares with the
server. Metrics and families lie in that memory: one that lives until then takes the process down
with a segmentation fault, at each stop of a pod.
"""

from collections.abc import Mapping
from typing import Any

import triton_python_backend_utils as pb_utils

from mm_api.metrics import Metric


class Series:
    """One metric with its labels; does nothing once it is ended."""

    def __init__(self, triton: Any) -> None:
        """Take Triton's object, which nothing else may keep."""
        self._triton = triton

    def set(self, value: float) -> None:
        """Set a gauge."""
        if (metric := self._triton) is not None:
            metric.set(value)

    def increment(self, value: float) -> None:
        """Add to a counter."""
        if (metric := self._triton) is not None:
            metric.increment(value)

    def end(self) -> None:
        """Take it off Triton's page."""
        self._triton = None


class Family:
    """Metrics of one name; Triton's own object, which keeps them on the page, is kept here."""

    def __init__(self, name: str, description: str, kind: Any) -> None:
        """Register it.

        Args:
            name: of the metrics.
            description: Prometheus's help text.
            kind: one of Triton's.
        """
        self._triton = pb_utils.MetricFamily(name=name, description=description, kind=kind)
        self._series: list[Series] = []
        _families.append(self)

    def series(self, labels: Mapping[str, str]) -> Series:
        """Register a metric of these labels."""
        found = Series(self._triton.Metric(labels=dict(labels)))
        self._series.append(found)
        return found

    def end(self) -> None:
        """End its metrics, then itself."""
        for one in self._series:
            one.end()
        self._triton = None


_families: list[Family] = []
"""Of this process, which is one instance of one model."""


def counters(metric: Metric, ending: str = "") -> Family:
    """Register counters.

    Args:
        metric: its name and help.
        ending: of the name.
    """
    return Family(metric.name + ending, metric.help, pb_utils.MetricFamily.COUNTER)


def gauges(metric: Metric) -> Family:
    """Register gauges."""
    return Family(metric.name, metric.help, pb_utils.MetricFamily.GAUGE)


def end_metrics() -> None:
    """End all metrics: the last thing that a model's `finalize` does."""
    for one in _families:
        one.end()
    _families.clear()
