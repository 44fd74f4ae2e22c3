"""Who encoded images, and how long it took, as Triton's metrics on the server's one port."""

from mm_api.metrics import ENCODED_REQUESTS, ENCODER_FALLBACKS, ENCODER_SECONDS
from mm_runtime.serving.encode.disaggregated.client import FallbackReason
from mm_runtime.serving.metrics.families import counters
from mm_runtime.serving.metrics.histograms import HistogramGauges

BY = ("own", "encoders")


class EncoderGauges:
    """Metrics of one server's encodings; called from any thread."""

    def __init__(self) -> None:
        requests, fallbacks = counters(ENCODED_REQUESTS), counters(ENCODER_FALLBACKS)
        self._by = {name: requests.series({"by": name}) for name in BY}
        self._why = {why: fallbacks.series({"reason": why.value}) for why in FallbackReason}
        self._seconds = HistogramGauges(ENCODER_SECONDS, BY)

    def encoded(self, by: str, requests: int, seconds: float) -> None:
        self._by[by].increment(requests)
        self._seconds.observe(seconds, by)

    def fell_back(self, why: FallbackReason) -> None:
        self._why[why].increment(1)
