"""What a viewer chooses above a dashboard: the Prometheus, and of what."""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard

DATASOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")

_EVERY = dashboard.VariableOption(selected=True, text="All", value="$__all")

Variable = builders.DatasourceVariable | builders.QueryVariable


def variables(*, chooses_model: bool) -> tuple[Variable, ...]:
    """Return the variables in the order in which they depend on each other."""
    source = (
        builders.DatasourceVariable("datasource")
        .label("Prometheus")
        .type("prometheus")
        .multi(multi=False)
    )
    if not chooses_model:
        return (source,)
    return (
        source,
        _labels("namespace", "Namespace", "label_values(mm_model_condition, namespace)"),
        _labels(
            "model", "Model", 'label_values(mm_model_condition{namespace=~"$namespace"}, model)'
        ),
    )


def _labels(name: str, label: str, query: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        .current(_EVERY)
    )
