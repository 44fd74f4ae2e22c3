"""How many requests a Python model has in hand, as Triton's metric.

Triton counts the requests that wait for a model (`nv_inference_pending_request_count`) and those
that are over, and none that a model has taken up: one that fetches an image, or waits for an
encoder in another pod, is in neither. A server that is stopped meanwhile refuses the next step of
its ensemble, so the drain has to know of it.
"""

import threading

from mm_api.metrics import EXECUTING_REQUESTS
from mm_runtime.serving.metrics.families import gauges


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
