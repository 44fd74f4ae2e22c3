"""Panels and names that several dashboards show, so that they say the same everywhere."""

from mm_observability.boards.board import Panel, Query
from mm_observability.queries import traffic
from mm_observability.queries.select import CHOSEN

WHO = "{{namespace}}/{{model}}"
"""Legend of a model's series."""


def finished_requests() -> Panel:
    """Return what became of requests."""
    return Panel(
        "Requests",
        "Finished requests per second by status.",
        (Query(traffic.requests(CHOSEN), f"{WHO} {{{{code}}}}"),),
        "reqps",
        stacked=True,
    )
