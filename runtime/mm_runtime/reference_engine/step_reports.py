"""How many requests the decoding steps had, reported once in a while: each report costs calls."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

StepObserver = Callable[[Mapping[int, int]], None]

REPORT_INTERVAL_SECONDS = 1.0
"""Prometheus scrapes every 15 s by default, the operator's autoscaler every 5 s at the soonest."""


class StepReports:
    """Steps that were not reported yet: requests of a step -> such steps."""

    def __init__(self) -> None:
        self.observe: StepObserver = lambda _: None
        self._sizes: Counter[int] = Counter()
        self._reported_at = 0.0

    def add(self, requests: int) -> None:
        self._sizes[requests] += 1

    def report(self, *, busy: bool) -> None:
        now = time.monotonic()
        if self._sizes and (not busy or now - self._reported_at >= REPORT_INTERVAL_SECONDS):
            self._reported_at = now
            sizes, self._sizes = self._sizes, Counter()
            try:
                self.observe(sizes)
            except Exception:
                logger.exception("the steps could not be counted; generation continues")
