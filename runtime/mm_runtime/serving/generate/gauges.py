"""How many requests the language model has, as Triton's metric of upstream's name and labels.

`active` counts every request whose stream is not closed, waiting ones included: the server is idle,
and may be stopped, only when it is 0.
"""

import threading

from mm_api.metrics import KV_REUSE_BYTES, KV_REUSE_EVICTIONS, KV_REUSE_TOKENS
from mm_runtime.serving.generate.request import PrefixCounts
from mm_runtime.serving.metrics.collected import Gauge
from mm_runtime.serving.metrics.families import Family, counters, gauges

FAMILY = "nv_trt_llm_request_metrics"
LABEL = "request_type"

RESULTS = ("reused", "computed")


class RequestGauges:
    """The gauges of one model instance; may be called from any thread."""

    def __init__(self, limit: int) -> None:
        """Register the metric; `limit`: requests that can run at one time."""
        self._lock = threading.Lock()
        help_text = "Requests of the language model by state."
        family = Family(FAMILY, help_text, Gauge)
        self._active = family.series({LABEL: "active"})
        self._waiting = family.series({LABEL: "waiting"})
        self._max = family.series({LABEL: "max"})
        self._count = 0
        self._limit = limit
        self._max.set(limit)

    def entered(self) -> None:
        """Count a request from before its first error could be sent."""
        self._change(1)

    def left(self) -> None:
        """Stop counting a request, after its stream was closed."""
        self._change(-1)

    def _change(self, by: int) -> None:
        with self._lock:
            self._count += by
            self._active.set(self._count)
            self._waiting.set(max(0, self._count - self._limit))


class ReuseGauges:
    """What prompts find of earlier requests; published by one thread."""

    def __init__(self) -> None:
        tokens = counters(KV_REUSE_TOKENS)
        self._reused, self._computed = (tokens.series({"result": one}) for one in RESULTS)
        self._evictions = counters(KV_REUSE_EVICTIONS).series({})
        self._used = gauges(KV_REUSE_BYTES).series({})

    def publish(self, kept: PrefixCounts) -> None:
        self._reused.reach(kept.reused)
        self._computed.reach(kept.requested - kept.reused)
        self._evictions.reach(kept.evictions)
        self._used.set(kept.used_bytes)
