"""Every dashboard, in the order of Grafana's list."""

from mm_observability.dashboards import autoscaling, builds, fleet, model, operator, router
from mm_observability.dashboards.dashboard import Dashboard


def every_dashboard() -> tuple[Dashboard, ...]:
    return (
        fleet.DASHBOARD,
        model.DASHBOARD,
        builds.DASHBOARD,
        autoscaling.DASHBOARD,
        operator.DASHBOARD,
        router.DASHBOARD,
    )
