"""What `spec.autoscaling` may require of metrics: what buckets show, queries that can fall.

The text of a query is searched, not parsed: what is refused here never answers with a number of
replicas. What is wrong in other ways Prometheus says itself, in status and condition.
"""

from typing import Final

from mm_api.metrics import (
    GATEWAY_METRICS,
    OBJECTIVE_HISTOGRAMS,
    SERVER_METRICS,
    MetricKind,
    buckets_of,
)
from mm_api.v1alpha1 import duration
from mm_api.v1alpha1.autoscaling import AutoscalingSpec, Objective
from mm_api.v1alpha1.rule import Rule

_HISTOGRAMS: Final = "|".join(
    one.name for one in (*GATEWAY_METRICS, *SERVER_METRICS) if one.kind is MetricKind.HISTOGRAM
)

_COUNTER: Final = (
    r"\b(?:[a-zA-Z_][a-zA-Z0-9_:]*_(?:total|bucket|(?:seconds|bytes|tokens|requests)_(?:sum|count))"
    rf"|nv_inference_(?:count|exec_count|request_success|request_failure|[a-z_]+_us)|{_HISTOGRAMS})\b"
)
"""Series that only grow, by the suffixes that Prometheus' clients write, and Triton's, which has
none. Other names that end in _sum or _count may be gauges."""

_MATCHERS: Final = r"(?:\s*\{[^{}]*\})?"

_AS_IT_IS: Final = (
    rf"{_COUNTER}{_MATCHERS}\s*(?:$|[-+*/%^><),@#]|==|!=|\b(?:offset|and|or|unless|on|ignoring)\b)"
)
"""A counter without a range: what may follow an instant vector follows it."""

_COUNTED: Final = rf"\b(?:count|group|absent|timestamp)\s*\(\s*{_AS_IT_IS}"
"""Functions that do not look at the value."""

_VALUES_OF_A_RANGE: Final = (
    r"\b(?:avg|min|max|sum|last|first|quantile|stddev|stdvar|mad)_over_time\s*\("
    rf"[^()]*?{_COUNTER}{_MATCHERS}\s*\["
)

_COMMENTS_ONLY: Final = r"^\s*(?:#[^\n]*\s*)*$"


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


def _cel(pattern: str) -> str:
    """Return a pattern as a raw string of CEL."""
    return f"r'{pattern}'"


METRIC_RULES: Final[dict[type, tuple[Rule, ...]]] = {
    Objective: tuple(_bounds(metric) for metric in OBJECTIVE_HISTOGRAMS),
    AutoscalingSpec: (
        Rule(
            cel=f"!has(self.customQuery) || !self.customQuery.matches({_cel(_COMMENTS_ONLY)})",
            message="customQuery has no expression: write one that answers how many replicas are "
            "wanted, for example ceil(sum(mm_requests_running{model='$model'}) / 8), or remove it",
            field="customQuery",
        ),
        Rule(
            cel="!has(self.customQuery) || "
            f"(size(self.customQuery.findAll({_cel(_AS_IT_IS)})) <= "
            f"size(self.customQuery.findAll({_cel(_COUNTED)})) && "
            f"!self.customQuery.matches({_cel(_VALUES_OF_A_RANGE)}))",
            message="customQuery takes a counter or a histogram as it is, which only grows, and "
            "replicas would with it: put rate(NAME_total[5m]) or increase(...) in its place, or "
            "histogram_quantile(0.95, sum by (le) (rate(NAME_bucket[5m])))",
            field="customQuery",
        ),
    ),
}
