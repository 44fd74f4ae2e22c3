"""What `spec.autoscaling.objectives` may require: latencies that the buckets of metrics show."""

from typing import Final

from mm_api.metrics import OBJECTIVE_HISTOGRAMS, buckets_of
from mm_api.v1alpha1 import duration
from mm_api.v1alpha1.rule import Rule


def _bounds(metric: str) -> Rule:
    histogram = OBJECTIVE_HISTOGRAMS[metric]
    buckets = buckets_of(histogram)
    least, most = (duration.written(bound) for bound in (buckets[0], buckets[-1]))
    return Rule(
        cel=f"self.metric != '{metric}' || !self.target.matches('{duration.PATTERN}') || "
        f"(duration(self.target) >= duration('{least}') && "
        f"duration(self.target) <= duration('{most}'))",
        message=f"target of {metric} must be from {least} to {most}, the first and last bound of "
        f"{histogram}: whether requests keep another one cannot be seen",
        field="target",
    )


OBJECTIVE_RULES: Final = tuple(_bounds(metric) for metric in OBJECTIVE_HISTOGRAMS)
