"""Dashboards and rules query metrics that exist, in terms that Prometheus and Grafana take."""

import json
from pathlib import Path

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard as GrafanaDashboard

from mm_api.metrics import (
    GATEWAY_METRICS,
    MODEL_METRICS,
    OPERATOR_METRICS,
    ROUTER_METRICS,
    SCALING_METRICS,
    SERVER_METRICS,
    MetricKind,
)
from mm_observability.dashboards.dashboard import STEPS, Dashboard, every_dashboard
from mm_observability.dashboards.render import to_json
from support.cases import cases
from support.prometheus import promtool
from support.promql import metrics_in, substituted
from support.queries import every_query, every_rule
from support.scripts import ROOT, load_tool
from support.upstream_metrics import UPSTREAM

DASHBOARDS = pytest.mark.parametrize(
    "dashboard", every_dashboard(), ids=lambda dashboard: dashboard.uid
)
GRID_COLUMNS = 24


def known_names() -> set[str]:
    names = set(UPSTREAM)
    for metric in (
        *GATEWAY_METRICS,
        *SERVER_METRICS,
        *OPERATOR_METRICS,
        *ROUTER_METRICS,
        *MODEL_METRICS,
        *SCALING_METRICS,
    ):
        if metric.kind is MetricKind.HISTOGRAM:
            names |= {f"{metric.name}_{part}" for part in ("bucket", "count", "sum")}
        else:
            names.add(metric.name)
    return names | {rule["record"] for rule in every_rule() if "record" in rule}


@cases(
    "expression expected",
    {
        "grouping": ("sum by (a, b) (rate(m_total[5m]))", {"m_total"}),
        "matchers": ('x:y{a="b c",d=~"e"} offset 1h > 1e6', {"x:y"}),
        "operators": ("p and on (a) q or vector(0)", {"p", "q"}),
        "texts": ('label_replace(g, "le", "$1", "b", "(.+)")', {"g"}),
        "numbers": ("histogram_quantile(0.5, b_bucket)", {"b_bucket"}),
    },
)
def test_names_are_found_in_expressions(expression: str, expected: set[str]) -> None:
    """The reader of expressions, which the other tests lean on, finds the metrics and no more."""
    assert metrics_in(expression) == expected


def test_every_metric_requested_exists() -> None:
    requested = {name for _, query in every_query() for name in metrics_in(query.expr)}
    requested |= {name for rule in every_rule() for name in metrics_in(rule["expr"])}

    assert requested - known_names() == set()
    assert len(requested) > 30


def test_prometheus_understands_every_expression(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:query:{number}", "expr": substituted(query.expr)}
        for number, (_, query) in enumerate(every_query())
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = promtool("check", "rules", str(file))

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


@DASHBOARDS
def test_grafana_types_read_it_back(dashboard: Dashboard) -> None:
    """Grafana's own types lose nothing of a dashboard, so it holds nothing they do not know."""
    written = json.loads(to_json(dashboard))
    read = GrafanaDashboard.from_json(written)

    assert json.loads(json.dumps(read, cls=JSONEncoder)) == written


@DASHBOARDS
def test_panels_fill_their_rows(dashboard: Dashboard) -> None:
    """Widths add up to entire lines of the grid, so that no panel stands alone by accident."""
    assert [
        sum(panel.width or row.width for panel in row.panels) % GRID_COLUMNS
        for row in dashboard.rows
    ] == [0 for _ in dashboard.rows]


def test_every_panel_explains_itself() -> None:
    for dashboard in every_dashboard():
        panels = [panel for row in dashboard.rows for panel in row.panels]
        assert [panel.title for panel in panels if not (panel.unit and panel.description)] == []
        assert [panel.title for panel in panels if not panel.description.endswith(".")] == []
        assert len({panel.title for panel in panels}) == len(panels)


def test_shares_change_their_colour_below_all() -> None:
    """A share that turns red at 1 is green until everything fails."""
    shares = [
        (dashboard.uid, panel.title)
        for dashboard in every_dashboard()
        for row in dashboard.rows
        for panel in row.panels
        if panel.unit == "percentunit"
        and any((value or 0) >= 1 for value, _ in STEPS[panel.thresholds])
    ]

    assert shares == []


def test_links_to_dashboards_stay_valid() -> None:
    """A dashboard's uid is part of bookmarks and links: it never changes."""
    assert [dashboard.uid for dashboard in every_dashboard()] == [
        "multimodal-fleet",
        "multimodal-model",
        "multimodal-builds",
        "multimodal-autoscaling",
        "multimodal-operator",
        "multimodal-router",
        "multimodal-cost",
    ]


def test_committed_files_are_fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = load_tool("generate_dashboards")
    assert tool.main(["--check"], ROOT) == 0
    assert tool.main([], tmp_path) == 0
    edited = tmp_path / tool.FOLDER / "multimodal-fleet.json"
    edited.write_text("edited", encoding="utf-8")
    extra = tmp_path / tool.FOLDER / "old.json"
    extra.write_text("{}", encoding="utf-8")
    capsys.readouterr()

    assert tool.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{edited.relative_to(tmp_path)} is stale: run `make generate`",
        f"{extra.relative_to(tmp_path)} is not generated from anything: delete it",
    ]
    assert tool.main([], tmp_path) == 0
    assert tool.main(["--check"], tmp_path) == 0
