"""Every dashboard, in the order of Grafana's list."""

from mm_observability.dashboards import autoscaling, builds, fleet, model, operator, router
from mm_observability.dashboards.dashboard import Dashboard, Query


def every_dashboard() -> tuple[Dashboard, ...]:
    """Return every dashboard."""
    return (
        fleet.dashboard(),
        model.dashboard(),
        builds.dashboard(),
        autoscaling.dashboard(),
        operator.dashboard(),
        router.dashboard(),
    )


def every_query() -> tuple[tuple[str, Query], ...]:
    """Return each query with its place, `uid / panel / number`."""
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
