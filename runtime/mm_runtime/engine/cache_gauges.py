"""The feature cache's counts as Triton's metrics, beside the server's own on the same port."""

import triton_python_backend_utils as pb_utils

from mm_api.metrics import (
    FEATURE_CACHE_BYTES,
    FEATURE_CACHE_EVICTIONS,
    FEATURE_CACHE_LOOKUPS,
)
from mm_runtime.engine.vision.cache import FeatureCache

RESULTS = ("hits", "misses", "shared", "collisions")


class CacheGauges:
    """Metrics of one cache; published after each batch by the thread that encodes."""

    def __init__(self, cache: FeatureCache) -> None:
        """Register the metrics."""
        self._cache = cache
        kinds = pb_utils.MetricFamily
        # Metrics end with their family, so families are kept.
        self._families = [
            kinds(name=metric.name, description=metric.help, kind=kind)
            for metric, kind in (
                (FEATURE_CACHE_LOOKUPS, kinds.COUNTER),
                (FEATURE_CACHE_EVICTIONS, kinds.COUNTER),
                (FEATURE_CACHE_BYTES, kinds.GAUGE),
            )
        ]
        lookups, evictions, used = self._families
        self._lookups = {name: lookups.Metric(labels={"result": name}) for name in RESULTS}
        self._evictions = evictions.Metric(labels={})
        self._used = used.Metric(labels={})
        self._told = dict.fromkeys((*RESULTS, "evictions"), 0)

    def publish(self) -> None:
        """Bring the metrics up to date."""
        counters = self._lookups | {"evictions": self._evictions}
        for name, metric in counters.items():
            count = getattr(self._cache.counts, name)
            metric.increment(count - self._told[name])
            self._told[name] = count
        self._used.set(self._cache.used_bytes)
