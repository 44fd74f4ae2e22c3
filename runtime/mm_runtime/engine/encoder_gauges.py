"""Who encoded pictures, and how long it took, as Triton's metrics on the server's one port."""

import triton_python_backend_utils as pb_utils

from mm_api.metrics import ENCODED_REQUESTS, ENCODER_BATCHES, ENCODER_FALLBACKS, ENCODER_SECONDS
from mm_runtime.engine.encoders.client import Why
from mm_runtime.engine.encoders.first import Encodings


class EncoderGauges:
    """Metrics of one encoder; published after each batch by the thread that encodes."""

    def __init__(self, told: Encodings) -> None:
        """Register the metrics."""
        self._told = told
        # Metrics end with their family, so families are kept.
        self._families = [
            pb_utils.MetricFamily(
                name=metric.name, description=metric.help, kind=pb_utils.MetricFamily.COUNTER
            )
            for metric in (ENCODED_REQUESTS, ENCODER_FALLBACKS, ENCODER_SECONDS, ENCODER_BATCHES)
        ]
        requests, fallbacks, seconds, batches = self._families
        self._by = {name: requests.Metric(labels={"by": name}) for name in ("own", "encoders")}
        self._why = {why: fallbacks.Metric(labels={"reason": why.value}) for why in Why}
        self._seconds, self._batches = seconds.Metric(labels={}), batches.Metric(labels={})

    def publish(self, seconds: float) -> None:
        """Count one batch that took so long, and bring the rest up to date."""
        self._seconds.increment(seconds)
        self._batches.increment(1)
        for name, metric in self._by.items():
            metric.increment(getattr(self._told, name) - metric.value())
        for why, metric in self._why.items():
            metric.increment(self._told.fallbacks[why] - metric.value())
