"""Recording rules of latency objectives: requests, good ones, bad share in four windows, budgets.

A request is good when its histogram counts it at or below the objective's bucket, which the
operator computes from the spec. Long windows sum the five-minute rates: they read one stored series
per objective instead of every bucket of every pod.
"""

from mm_api.metrics import OBJECTIVE_HISTOGRAMS
from mm_observability.queries.select import newest, per_model, rate, series
from mm_observability.rules.rule import Group, Recording

LEVEL = "namespace_model_objective"
REQUESTS = f"{LEVEL}:mm_slo_requests:rate5m"
GOOD = f"{LEVEL}:mm_slo_good:rate5m"
BAD = f"{LEVEL}:mm_slo_bad:ratio_rate"
BUDGET = f"{LEVEL}:mm_slo_budget:ratio"
FAST = f"{LEVEL}:mm_slo_burn_fast:threshold"
SLOW = f"{LEVEL}:mm_slo_burn_slow:threshold"

LONG_WINDOWS = ("30m", "1h", "6h")

FAST_BURN, SLOW_BURN = 14.4, 6
"""Times the allowed speed at which a 30-day budget is gone in 2 and 5 days: Google's SRE Workbook,
chapter 5, "Multiwindow, Multi-Burn-Rate Alerts"."""

FAST_CAP, SLOW_CAP = 0.75, 0.5
"""Latency objectives are loose (p90 leaves a budget of 10 %), and 14.4 times that is more than
every request. So the threshold is at most this far from the budget towards all requests."""


def group() -> Group:
    """Return every recording rule of objectives, in the order in which they read each other."""
    return Group("multimodal-objectives", (*_counts(), *_shares(), *_thresholds()))


def _counts() -> tuple[Recording, ...]:
    rules: list[Recording] = []
    for objective, histogram in OBJECTIVE_HISTOGRAMS.items():
        label = {"objective": objective}
        wanted = series("mm_model_objective_seconds", more=f'objective="{objective}"')
        # A histogram's buckets are distinguished by `le`; a gauge must not have that label.
        at_bucket = f'label_replace({newest(wanted, "bucket")}, "le", "$1", "bucket", "(.+)")'
        every = per_model(rate(f"{histogram}_count", window="5m"))
        bucket = per_model(rate(f"{histogram}_bucket", window="5m"), "le")
        rules += [
            Recording(REQUESTS, f"{every} and on (namespace, model) {newest(wanted)}", label),
            Recording(
                GOOD,
                f"sum by (namespace, model) ({bucket} and on (namespace, model, le) {at_bucket})",
                label,
            ),
        ]
    return tuple(rules)


def _shares() -> tuple[Recording, ...]:
    windows = [
        Recording(
            f"{BAD}{window}",
            f"1 - sum_over_time({GOOD}[{window}]) / (sum_over_time({REQUESTS}[{window}]) > 0)",
        )
        for window in LONG_WINDOWS
    ]
    return (Recording(f"{BAD}5m", f"1 - {GOOD} / ({REQUESTS} > 0)"), *windows)


def _thresholds() -> tuple[Recording, ...]:
    budget = f"1 - {newest(series('mm_model_objective_ratio'), 'objective')}"
    return (
        Recording(BUDGET, budget),
        Recording(FAST, _smaller(FAST_BURN, FAST_CAP)),
        Recording(SLOW, _smaller(SLOW_BURN, SLOW_CAP)),
    )


def _smaller(burn: float, cap: float) -> str:
    capped = f"({BUDGET} + {cap} * (1 - {BUDGET}))"
    return f"({burn} * {BUDGET}) < {capped} or {capped}"
