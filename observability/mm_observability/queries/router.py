"""The router's work. Its label `model` is `namespace/name`: the model's, not the router's."""

from mm_observability.queries.select import PANEL, rate, series

_WHO = "model"


def requests(*, window: str = PANEL) -> str:
    """Return finished requests per second by status."""
    return f"sum by ({_WHO}, code) ({rate('mm_router_requests_total', window=window)})"


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


def placements(*, window: str = PANEL) -> str:
    """Return placements per second by why a replica was chosen."""
    return f"sum by (by) ({rate('mm_router_placements_total', window=window)})"


def splits(*, window: str = PANEL) -> str:
    """Return requests per second by the names of splits, by model and why it was chosen."""
    return f"sum by (split, {_WHO}, by) ({rate('mm_router_splits_total', window=window)})"


def first_byte(share: float, *, window: str = PANEL) -> str:
    """Return the time to the first byte that `share` of the answers keep."""
    buckets = rate("mm_router_first_byte_seconds_bucket", window=window)
    return f"histogram_quantile({share}, sum by ({_WHO}, le) ({buckets}))"


def retries(*, window: str = PANEL) -> str:
    """Return requests per second that another replica got, by why."""
    return f"sum by ({_WHO}, reason) ({rate('mm_router_retries_total', window=window)})"


def ejections(*, window: str = PANEL) -> str:
    """Return ejections per second by why."""
    return f"sum by ({_WHO}, reason) ({rate('mm_router_ejections_total', window=window)})"


def key_requests(*, window: str = PANEL) -> str:
    """Return requests per second of keys with limits that were let in, by who counted them."""
    return f"sum by (key, by) ({rate('mm_router_key_requests_total', window=window)})"


def key_rejected(*, window: str = PANEL) -> str:
    """Return requests per second that were refused for the limits of their key, by which limit."""
    return f"sum by (key, reason) ({rate('mm_router_key_rejected_total', window=window)})"


def key_alone_share(*, window: str = PANEL) -> str:
    """Return the share of a key's requests that were counted without the key's owner."""
    alone = rate("mm_router_key_requests_total", more='by="alone"', window=window)
    every = rate("mm_router_key_requests_total", window=window)
    return f"sum by (key) ({alone}) / (sum by (key) ({every}) > 0)"


def outstanding() -> str:
    """Return requests that replicas answer now, of all routers."""
    return f"sum by ({_WHO}) ({series('mm_router_outstanding_requests')})"


def outstanding_tokens() -> str:
    """Return the estimated tokens of these requests."""
    return f"sum by ({_WHO}) ({series('mm_router_outstanding_tokens')})"


def key_tokens(*, window: str = PANEL) -> str:
    """Return tokens per second of keys whose tokens are limited."""
    return f"sum by (key) ({rate('mm_router_key_tokens_total', window=window)})"


def replicas() -> str:
    """Return ready replicas, as the router sees them that sees the fewest."""
    return f"min by ({_WHO}) ({series('mm_router_replicas')})"


def ejected_share() -> str:
    """Return the share of a model's replicas that are left alone, of the worst router."""
    ejected, known = series("mm_router_replicas_ejected"), series("mm_router_replicas")
    return f"max by ({_WHO}) ({ejected} / ({known} > 0))"
