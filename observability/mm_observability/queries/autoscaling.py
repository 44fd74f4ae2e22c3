"""Decisions of the autoscaler, from the leading operator."""

from mm_observability.queries.select import ALL, MODEL, Newest, newest, series

_COLD = "mm_autoscaling_cold_start_seconds"


desired = Newest("mm_autoscaling_desired_replicas")
applied = Newest("mm_autoscaling_applied_replicas")


def changed(labels: str = ALL) -> str:
    """Return a series for each model whose replicas changed lately: an annotation.

    Two minutes hold two samples also of a Prometheus that scrapes each minute, its own default.
    """
    return f"changes({series('mm_autoscaling_applied_replicas', labels)}[2m]) > 0"


def changes(labels: str = ALL) -> str:
    counted = series("mm_autoscaling_changes_total", labels)
    return newest(f"increase({counted}[1h])", "direction")


def reversals(labels: str = ALL) -> str:
    """Return the changes of the last hour that undid the one before."""
    return newest(f"increase({series('mm_autoscaling_reversals_total', labels)}[1h])")


vetoes = Newest("mm_autoscaling_veto_total", f"{MODEL}, veto")
cold_start = Newest(_COLD, f"{MODEL}, phase")
cold_start_total = Newest(_COLD, more='phase="total"')


def cold_start_usual() -> str:
    """Return the 95th percentile of that median over the week before the last hour."""
    total = series(_COLD, 'phase="total"')
    return newest(f"quantile_over_time(0.95, {total}[7d] offset 1h)")


def work(labels: str = ALL) -> str:
    """Return the seconds of a replica that a unit of work takes, the median of the pods.

    Zero is a measurement that the pod does not believe.
    """
    measured = series("mm_work_seconds", labels)
    return f"quantile by ({MODEL}, unit) (0.5, {measured} > 0)"


decision_age = Newest("mm_autoscaling_decision_age_seconds")


def blind(labels: str = ALL) -> str:
    """Return a series for each model that no metrics are found for."""
    return f"{newest(series('mm_autoscaling_metrics_available', labels))} == 0"
