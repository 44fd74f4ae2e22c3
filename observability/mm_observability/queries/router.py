"""The router's work. Its label `model` is `namespace/name`: the model's, not the router's."""

from mm_observability.queries.select import PANEL, Sum, rate, series

_WHO = "model"

requests = Sum("mm_router_requests_total", f"{_WHO}, code")


def failed_share(*, window: str = PANEL) -> str:
    """Return the share of requests that ended with a server's error, or with a lost replica."""
    failed = rate("mm_router_requests_total", more='code=~"5..",model!=""', window=window)
    every = rate("mm_router_requests_total", more='model!=""', window=window)
    return f"sum by ({_WHO}) ({failed}) / (sum by ({_WHO}) ({every}) > 0)"


def affinity_share(*, window: str = PANEL) -> str:
    """Return the share of placements that met the replica which may know the request."""
    first = rate("mm_router_placements_total", more='by="affinity"', window=window)
    every = rate("mm_router_placements_total", window=window)
    return f"sum by ({_WHO}) ({first}) / (sum by ({_WHO}) ({every}) > 0)"


placements = Sum("mm_router_placements_total", "by")
splits = Sum("mm_router_splits_total", f"split, {_WHO}, by")


def first_byte(share: float, *, window: str = PANEL) -> str:
    """Return the time to the first byte that `share` of the answers keep."""
    buckets = rate("mm_router_first_byte_seconds_bucket", window=window)
    return f"histogram_quantile({share}, sum by ({_WHO}, le) ({buckets}))"


version_requests = Sum("mm_router_version_requests_total", f"{_WHO}, version, code")


def version_failed_share(*, window: str = PANEL) -> str:
    """Return the share of requests that each revision of a model with a canary failed."""
    failed = rate("mm_router_version_requests_total", more='code=~"[45]..|error"', window=window)
    every = rate("mm_router_version_requests_total", window=window)
    return f"sum by ({_WHO}, version) ({failed}) / (sum by ({_WHO}, version) ({every}) > 0)"


def version_first_text(share: float, *, window: str = PANEL) -> str:
    """Return the time to the first text that `share` of a revision's answers keep."""
    buckets = rate("mm_router_version_first_text_seconds_bucket", window=window)
    return f"histogram_quantile({share}, sum by ({_WHO}, version, le) ({buckets}))"


retries = Sum("mm_router_retries_total", f"{_WHO}, reason")
ejections = Sum("mm_router_ejections_total", f"{_WHO}, reason")
key_requests = Sum("mm_router_key_requests_total", "key")
key_rejected = Sum("mm_router_key_rejected_total", "key, reason")
outstanding = Sum("mm_router_outstanding_requests", _WHO)
outstanding_tokens = Sum("mm_router_outstanding_tokens", _WHO)


def replicas() -> str:
    """Return ready replicas, as the router sees them that sees the fewest."""
    return f"min by ({_WHO}) ({series('mm_router_replicas')})"


def held_seconds(*, window: str = PANEL) -> str:
    """Return how long a request waited for a replica, of the worst router."""
    waited = series("mm_router_oldest_held_seconds")
    return f"max by ({_WHO}) (max_over_time({waited}[{window}]))"


def ejected_share() -> str:
    """Return the share of a model's replicas that are left alone, of the worst router."""
    ejected, known = series("mm_router_replicas_ejected"), series("mm_router_replicas")
    return f"max by ({_WHO}) ({ejected} / ({known} > 0))"
