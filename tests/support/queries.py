"""Every query of the dashboards and every rule of the chart's rule file."""

from typing import Any

import yaml

from mm_observability.dashboards.dashboard import Query, every_dashboard
from support.scripts import ROOT

RULES = ROOT / "charts" / "multimodal-operator" / "files" / "rules" / "multimodal.yaml"


def every_rule() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def every_alert() -> list[dict[str, Any]]:
    return [rule for rule in every_rule() if "alert" in rule]


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
