"""Panels and names that several dashboards show, so that they say the same everywhere."""

from collections.abc import Callable

from mm_observability.dashboards.dashboard import THIRD, Query, panel
from mm_observability.queries import models, traffic
from mm_observability.queries.select import CHOSEN

WHO = "{{namespace}}/{{model}}"
"""Legend of a model's series."""


def percentiles(measure: Callable[[float], str], legend: str, *shares: float) -> tuple[Query, ...]:
    return tuple(Query(measure(share), f"{legend}p{share * 100:g}") for share in shares)


BOUNDS = ".* (least|most)"
"""Series of `WITHIN_BOUNDS` that are drawn dashed."""

WITHIN_BOUNDS = (
    Query(models.replicas("ready", CHOSEN), f"{WHO} ready"),
    Query(models.replicas("min", CHOSEN), f"{WHO} least"),
    Query(models.replicas("max", CHOSEN), f"{WHO} most"),
)
"""The replicas that answer, and the bounds of the requested ones."""

FINISHED_REQUESTS = panel(
    "Requests",
    "Finished requests per second by status.",
    Query(traffic.requests(CHOSEN), f"{WHO} {{{{code}}}}"),
    unit="reqps",
    width=THIRD,
    stacked=True,
)
