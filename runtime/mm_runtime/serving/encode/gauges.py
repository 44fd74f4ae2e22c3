"""Who encoded images, how long it took, and what was known of them, as Triton's metrics."""

from mm_api.metrics import (
    ENCODED_REQUESTS,
    ENCODER_FALLBACKS,
    ENCODER_SECONDS,
    FEATURE_CACHE_BYTES,
    FEATURE_CACHE_EVICTIONS,
    FEATURE_CACHE_LOOKUPS,
)
from mm_runtime.serving.encode.disaggregated.client import FallbackReason
from mm_runtime.serving.encode.vision.cache import FeatureCache
from mm_runtime.serving.metrics.families import counters, gauges
from mm_runtime.serving.metrics.histograms import HistogramGauges

BY = ("own", "encoders")
RESULTS = ("hits", "misses", "shared")


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


class CacheGauges:
    """Metrics of one cache; published after each batch by the thread that encodes."""

    def __init__(self, cache: FeatureCache) -> None:
        self._cache = cache
        lookups = counters(FEATURE_CACHE_LOOKUPS)
        self._counters = {name: lookups.series({"result": name}) for name in RESULTS}
        self._counters["evictions"] = counters(FEATURE_CACHE_EVICTIONS).series({})
        self._used = gauges(FEATURE_CACHE_BYTES).series({})

    def publish(self) -> None:
        for name, metric in self._counters.items():
            metric.reach(getattr(self._cache.counts, name))
        self._used.set(self._cache.used_bytes)
