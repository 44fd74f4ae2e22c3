"""A dashboard as Grafana's JSON, through Grafana's own types."""

import json
from typing import Any, Final

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from mm_observability.dashboards.dashboard import STEPS, Dashboard, Kind, Panel, Query, Row

RUNBOOKS: Final = "docs/runbooks"
"""The chart puts `observability.runbooks` in its place."""

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


TAG = "multimodal"
MODEL_LINK: Final = {
    "title": "Dashboard of the model",
    "url": "/d/multimodal-model?var-namespace=${__data.fields.namespace}"
    "&var-model=${__data.fields.model}",
}
HOLDS: Final = {
    "type": "value",
    "options": {"1": {"text": "Ready", "color": "green"}, "0": {"text": "no", "color": "red"}},
}
HEIGHT = 8
STAT_HEIGHT = 4

_Builder = timeseries.Panel | stat.Panel | table.Panel | statetimeline.Panel


def to_json(definition: Dashboard) -> str:
    """Return a dashboard as Grafana's provisioning reads it."""
    content: dict[str, Any] = json.loads(
        json.dumps(_dashboard(definition).build(), cls=JSONEncoder)
    )
    _number(content)
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _dashboard(definition: Dashboard) -> builders.Dashboard:
    built = (
        builders.Dashboard(definition.title)
        .uid(definition.uid)
        .description(definition.description)
        .tags([TAG])
        .readonly()
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(
            builders.DashboardLink("Multimodal")
            .type(dashboard.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(as_dropdown=True)
            .include_vars(include_vars=True)
            .keep_time(keep_time=True)
        )
    )
    for variable in variables(chooses_model=definition.chooses_model):
        built.with_variable(variable)
    if definition.annotation:
        built.annotation(
            builders.AnnotationQuery()
            .name(definition.annotation.legend)
            .datasource(DATASOURCE)
            .enable(enable=True)
            .icon_color("purple")
            .expr(definition.annotation.expr)
        )
    for row in definition.rows:
        title = builders.Row(row.title)
        if row.collapsed:  # its panels are inside it, else Grafana drops them
            for panel in row.panels:
                title.with_panel(_panel(panel, row))
        built.with_row(title)
        for panel in () if row.collapsed else row.panels:
            built.with_panel(_panel(panel, row))
    return built


def _panel(panel: Panel, row: Row) -> _Builder:
    kind = panel.kind or row.kind
    built = _of_kind(panel, kind)
    built.title(panel.title).description(panel.description).datasource(DATASOURCE)
    built.span(panel.width or row.width).height(STAT_HEIGHT if kind == "stat" else HEIGHT)
    built.unit(panel.unit).no_value("no data").min(0)
    if panel.most is not None:
        built.max(panel.most)
    if steps := STEPS[panel.thresholds]:
        built.thresholds(
            builders.ThresholdsConfig()
            .mode(dashboard.ThresholdsMode.ABSOLUTE)
            .steps([dashboard.Threshold(*step) for step in steps])
        )
    if panel.runbook:
        address = f"{RUNBOOKS}/{panel.runbook}.md"
        built.links(
            [builders.DashboardLink("Runbook").url(address).target_blank(target_blank=True)]
        )
    for number, query in enumerate(panel.queries):
        built.with_target(_target(query, kind, chr(ord("A") + number)))
    return built


def _of_kind(panel: Panel, kind: Kind) -> _Builder:
    match kind:
        case "stat":
            reduce = common_builders.ReduceDataOptions().calcs(["lastNotNull"])
            return stat.Panel().reduce_options(reduce)
        case "table":
            columns = {
                "excludeByName": {"Time": True},
                "renameByName": {"Value": panel.queries[0].legend},
            }
            return (
                table.Panel()
                .with_transformation(dashboard.DataTransformerConfig("organize", options=columns))
                .override_by_name("model", [dashboard.DynamicConfigValue("links", [MODEL_LINK])])
                .override_by_name("Ready", [dashboard.DynamicConfigValue("mappings", [HOLDS])])
            )
        case "state":
            return statetimeline.Panel()
        case _:
            return _lines(panel)


def _lines(panel: Panel) -> timeseries.Panel:
    built = (
        timeseries.Panel()
        .line_width(1)
        .fill_opacity(20 if panel.stacked else 5)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.TABLE)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(show_legend=True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(
            common_builders.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
    )
    if panel.stacked:
        built.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    if STEPS[panel.thresholds]:
        built.thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED)
        )
    if panel.dashed:
        dashes = {"fill": "dash", "dash": [8, 8]}
        built.override_by_regexp(
            f"/^{panel.dashed}$/",
            [
                dashboard.DynamicConfigValue("custom.lineStyle", dashes),
                dashboard.DynamicConfigValue("custom.fillOpacity", 0),
            ],
        )
    return built


def _target(query: Query, kind: Kind, ref: str) -> prometheus.Dataquery:
    target = prometheus.Dataquery().ref_id(ref).expr(query.expr).legend_format(query.legend)
    target.datasource(DATASOURCE)
    if kind == "table":
        return target.instant().format(PromQueryFormat.TABLE)
    return target.range()


def _number(content: dict[str, Any]) -> None:
    panels = [one for panel in content["panels"] for one in (panel, *panel.get("panels", ()))]
    for number, panel in enumerate(panels, start=1):
        panel["id"] = number
