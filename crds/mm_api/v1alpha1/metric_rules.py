"""What `spec.autoscaling` may require of metrics: what buckets show, queries that can fall.

A query is read by tokens: what is refused here never answers with a number of replicas. What is
wrong in other ways Prometheus says itself, in status and condition.
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

_SILENT: Final = r"\"(?:[^\"\\]|\\.)*\"|\x27(?:[^\x27\\]|\\.)*\x27|`[^`]*`|#[^\n]*"
"""Strings and comments. Rules write the quote of CEL's own strings as a number."""

_LABELS: Final = r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)"

_FALLS: Final = (
    "rate|irate|increase|delta|idelta|deriv|changes|resets|timestamp|absent|count|count_values|group"
    "|(?:absent|count|present|stddev|stdvar|mad)_over_time"
)
"""Functions whose value can fall while that of a counter grows."""


def _balanced(depth: int) -> str:
    inner = rf"|\({_balanced(depth - 1)}\)" if depth else ""
    return rf"(?:[^()\"\x27`#]|{_SILENT}{inner})*"


_NEAR: Final = r"[^\[-]{0,200}"
"""Bounded: a query of 3,500 characters that are counters and minus signs took Python a minute."""

_WORDS: Final = (
    rf"{_SILENT}|(?i:{_LABELS})|(?i:\b(?:{_FALLS})\b(?:\s*{_LABELS})?\s*\({_balanced(4)}\))"
)
"""Tokens in which no series is taken as it is: lists of labels, and calls of `_FALLS` with all that
they hold."""

_MATCHERS: Final = rf"\{{(?:[^{{}}\"\x27`#]|{_SILENT})*\}}"

_NOT_JUDGED: Final = (
    rf"{_WORDS}|{_MATCHERS}|{_COUNTER}{_NEAR}-{_NEAR}{_COUNTER}{_NEAR}\boffset\b"
    r"|\b\w+:\w+:[\w:]*(?:rate|increase|delta|deriv|ratio|mean|quantile|percentile|p\d)[\w:]*"
)
"""Tokens that say nothing of a counter as it is: those, matchers, what has grown since an offset,
and names of recording rules whose operation says that it was applied (level:metric:operations)."""

_OPERATORS: Final = r"(?i:\b(?:and|or|unless|atan2|bool|group_left|group_right)\b)"

_NAMED: Final = rf"\b[a-zA-Z_:][a-zA-Z0-9_:]*\s*{_MATCHERS}"
_ANY_SELECTOR: Final = rf"{_WORDS}|{_OPERATORS}|{_NAMED}|{_MATCHERS}"
_NAMED_SELECTOR: Final = rf"{_WORDS}|{_OPERATORS}|{_NAMED}|\{{"
"""A selector without a name is one token of the first, and several of the second: its brace, and
the texts in it."""

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
            f"size(self.customQuery.findAll({_cel(_ANY_SELECTOR)})) == "
            f"size(self.customQuery.findAll({_cel(_NAMED_SELECTOR)}))",
            message="customQuery has a selector without a name in front of its braces, so whether "
            "its series only grow is not known: write NAME{...}; __name__ is read inside of rate() "
            "and the like only",
            field="customQuery",
        ),
        Rule(
            cel="!has(self.customQuery) || "
            f"size(self.customQuery.findAll({_cel(_NOT_JUDGED)})) == "
            f"size(self.customQuery.findAll({_cel(f'{_NOT_JUDGED}|{_COUNTER}')}))",
            message="customQuery takes a counter or a histogram as it is, which only grows, and "
            "replicas would with it: put rate(NAME_total[5m]) or increase(...) in its place, or "
            "histogram_quantile(0.95, sum by (le) (rate(NAME_bucket[5m])))",
            field="customQuery",
        ),
    ),
}
