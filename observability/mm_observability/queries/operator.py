"""The operator's own work; no query has a model."""

from mm_observability.queries.select import PANEL, Newest, Sum, rate, series


def leaders() -> str:
    return f"sum({series('mm_operator_leader')})"


namespaces_refused = Newest("mm_operator_namespaces_refused", "namespace")
"""How many namespaces each installation refuses, since another one serves them."""

namespaces_missing = Newest("mm_operator_namespaces_missing", "namespace")
"""How many namespaces each installation does not serve, since they did not exist."""

leader_pods = Newest("mm_operator_leader", "namespace, pod")
"""1 for the pod that leads, else 0."""

reconciles = Sum("mm_operator_reconcile_total", "result")


def reconcile_seconds(share: float) -> str:
    buckets = rate("mm_operator_reconcile_seconds_bucket")
    return f"histogram_quantile({share}, sum by (le) ({buckets}))"


def failed_share(*, window: str = PANEL) -> str:
    failed = rate("mm_operator_reconcile_total", more='result="error"', window=window)
    every = rate("mm_operator_reconcile_total", window=window)
    return f"sum({failed}) / (sum({every}) > 0)"


errors = Sum("mm_operator_errors_total", "stage")


def queue_depth() -> str:
    return f"max({series('mm_operator_queue_depth')})"


def loop_lag_seconds(share: float) -> str:
    """Return the lag of the event loop that `share` of the looks keep, by replica."""
    buckets = rate("mm_operator_event_loop_lag_seconds_bucket")
    return f"histogram_quantile({share}, sum by (le, pod) ({buckets}))"


def loop_stalled_share(*, window: str = PANEL) -> str:
    """Return the share of time for which the event loop of the worst replica stood still."""
    return f"max({rate('mm_operator_event_loop_lag_seconds_sum', window=window)})"


api_requests = Sum("mm_operator_api_requests_total", "verb, resource")


def api_failures() -> str:
    """Return refused API requests per second by code; 404 and 409 are part of normal work."""
    codes = 'code!~"2..|404|409"'
    requests = rate("mm_operator_api_requests_total", more=codes)
    return f"sum by (resource, code) ({requests})"


def memory_bytes() -> str:
    return _of_operator("process_resident_memory_bytes")


def cpu_cores() -> str:
    return _of_operator(f"rate(process_cpu_seconds_total[{PANEL}])")


def _of_operator(expression: str) -> str:
    # Of pods that have the operator's metrics, whatever their job is called.
    return f"max by (namespace, pod) ({expression}) and on (namespace, pod) {leader_pods()}"
