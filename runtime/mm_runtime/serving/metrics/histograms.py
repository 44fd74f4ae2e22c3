"""Histograms of Triton's Python models, which may publish counters and gauges only (2.51).

Each bucket is counted by itself; the supervisor adds them up when the page is scraped
(`mm_runtime.launch.exposition`).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence

from mm_api.metrics import Metric
from mm_runtime.serving.metrics.families import counters


class HistogramGauges:
    """One histogram with at most one label; may be used from any thread.

    `values`: of its label; none for a metric without one.
    """

    def __init__(self, metric: Metric, values: Sequence[str] = ()) -> None:
        """Register two families of counters, each bucket at 0."""
        self._bounds = metric.buckets
        buckets, sums = counters(metric, "_bucket"), counters(metric, "_sum")
        labels = [dict(zip(metric.labels, (value,), strict=True)) for value in values] or [{}]
        bounds = [repr(float(bound)) for bound in (*metric.buckets, math.inf)]
        self._buckets = {
            next(iter(one.values()), ""): [buckets.series({**one, "le": le}) for le in bounds]
            for one in labels
        }
        self._sums = {next(iter(one.values()), ""): sums.series(one) for one in labels}

    def observe(self, amount: float, value: str = "", *, times: int = 1) -> None:
        """Count an observation under a value of the label, or several equal ones at once."""
        self._buckets[value][bisect_left(self._bounds, amount)].increment(times)
        self._sums[value].increment(amount * times)
