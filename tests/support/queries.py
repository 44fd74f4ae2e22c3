"""Every query of the dashboards and every alert of the rule file."""

from mm_observability.dashboards.all import every_dashboard
from mm_observability.dashboards.dashboard import Query
from mm_observability.rules.file import every_group
from mm_observability.rules.rule import Alert


def every_alert() -> tuple[Alert, ...]:
    return tuple(rule for group in every_group() for rule in group.rules if isinstance(rule, Alert))


def every_query() -> tuple[tuple[str, Query], ...]:
    found = [
        (f"{dashboard.uid} / {panel.title} / {number}", query)
        for dashboard in every_dashboard()
        for row in dashboard.rows
        for panel in row.panels
        for number, query in enumerate(panel.queries, start=1)
    ]
    marks = [
        (f"{dashboard.uid} / annotation", dashboard.annotation)
        for dashboard in every_dashboard()
        if dashboard.annotation
    ]
    return (*found, *marks)
