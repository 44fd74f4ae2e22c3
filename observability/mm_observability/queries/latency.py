"""Latencies and the objectives they are held against."""

from mm_api.metrics import OBJECTIVE_HISTOGRAMS
from mm_observability.queries.select import ALL, MODEL, Newest, kept_by, newest, series


def quantile(objective: str, share: float, labels: str = ALL) -> str:
    """Return the latency that `share` of the requests keep, in seconds."""
    return kept_by(share, OBJECTIVE_HISTOGRAMS[objective], labels)


def target(objective: str, labels: str = ALL) -> str:
    """Return the latency that the model's spec wants kept, in seconds; no series without one."""
    return newest(series("mm_model_objective_seconds", labels, f'objective="{objective}"'))


def met_share(labels: str = ALL) -> str:
    """Return the share of requests within each objective over 5 minutes."""
    return f"1 - {series('namespace_model_objective:mm_slo_bad:ratio_rate5m', labels)}"


wanted_share = Newest("mm_model_objective_ratio", f"{MODEL}, objective")


def budget_burn(window: str, labels: str = ALL) -> str:
    """Return how many times faster than allowed each error budget is spent."""
    bad = series(f"namespace_model_objective:mm_slo_bad:ratio_rate{window}", labels)
    budget = series("namespace_model_objective:mm_slo_budget:ratio", labels)
    return f"{bad} / {budget}"
