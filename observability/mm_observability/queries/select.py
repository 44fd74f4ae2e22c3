"""Which series a query is about: label matchers, and the windows of rates."""

from dataclasses import dataclass
from typing import ClassVar, Final

ALL: Final = ""
CHOSEN: Final = 'namespace=~"$namespace",model=~"$model"'
"""What the dashboards' variables choose."""

PANEL: Final = "$__rate_interval"
"""Grafana's window: at least four scrapes, and no finer than a pixel."""

RANGE: Final = "$__range"
"""All of what the dashboard shows: for what happens a few times a day."""

MODEL: Final = "namespace, model"


def series(metric: str, labels: str = ALL, more: str = "") -> str:
    matchers = ",".join(part for part in (labels, more) if part)
    return f"{metric}{{{matchers}}}" if matchers else metric


def rate(metric: str, labels: str = ALL, more: str = "", *, window: str = PANEL) -> str:
    return f"rate({series(metric, labels, more)}[{window}])"


def increase(metric: str, labels: str = ALL, *, window: str = RANGE) -> str:
    return f"increase({series(metric, labels)}[{window}])"


def per_model(expression: str, *extra: str) -> str:
    return f"sum by ({', '.join((MODEL, *extra))}) ({expression})"


@dataclass(frozen=True, slots=True)
class Sum:
    """A query: one metric summed by labels; of a counter what comes per second."""

    metric: str
    by: str = MODEL
    more: str = ""
    operator: ClassVar = "sum"

    def __call__(self, labels: str = ALL, *, window: str = PANEL) -> str:
        """Return it for the series that have these labels."""
        counts = self.metric.endswith("_total")
        matched = (self.metric, labels, self.more)
        found = rate(*matched, window=window) if counts else series(*matched)
        return f"{self.operator} by ({self.by}) ({found})"


class Newest(Sum):
    """The same as the maximum over pods: for what the operator says of a model."""

    operator: ClassVar = "max"


def kept_by(
    share: float, histogram: str, labels: str = ALL, *extra: str, window: str = PANEL
) -> str:
    """Return what `share` of a histogram's observations do not exceed."""
    buckets = per_model(rate(f"{histogram}_bucket", labels, window=window), *extra, "le")
    return f"histogram_quantile({share}, {buckets})"


def newest(expression: str, *extra: str) -> str:
    """Return the maximum over pods: for what the operator says of a model."""
    return f"max by ({', '.join((MODEL, *extra))}) ({expression})"
