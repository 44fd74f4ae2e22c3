"""The feature cache's counts as Triton's metrics, beside the server's own on the same port."""

from mm_api.metrics import (
    FEATURE_CACHE_BYTES,
    FEATURE_CACHE_EVICTIONS,
    FEATURE_CACHE_LOOKUPS,
)
from mm_runtime.serving.encode.vision.cache import FeatureCache
from mm_runtime.serving.metrics.families import counters, gauges

RESULTS = ("hits", "misses", "shared")


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
