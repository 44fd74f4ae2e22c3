"""Every alert leads to a page that says what it means and what to do."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mm_api.metrics import (
    GATEWAY_METRICS,
    MODEL_METRICS,
    OPERATOR_METRICS,
    ROUTER_METRICS,
    SCALING_METRICS,
    SERVER_METRICS,
)
from mm_api.v1alpha1.definition import definition
from mm_observability.dashboards.dashboard import every_dashboard
from support.queries import every_alert
from support.scripts import ROOT
from support.upstream_metrics import UPSTREAM

FOLDER = ROOT / "docs" / "runbooks"
PAGES = sorted(FOLDER.glob("*.md"))
CATALOGUE = (
    *GATEWAY_METRICS,
    *SERVER_METRICS,
    *OPERATOR_METRICS,
    *ROUTER_METRICS,
    *MODEL_METRICS,
    *SCALING_METRICS,
)
EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@cache
def resource_schema() -> dict[str, Any]:
    """Return the resource's schema; it takes a third of a second to make."""
    schema: dict[str, Any] = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def spec_has(path: str) -> bool:
    """Return whether the resource has a field, written as users do: `spec.gateway.maxQueueSize`."""
    schema = resource_schema()
    for name in path.split("."):
        schema = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
        schema = schema.get("items", schema)
    return bool(schema)


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert {page.stem for page in PAGES} == {alert["alert"] for alert in every_alert()}


def test_panels_link_to_pages_that_exist() -> None:
    named = {
        panel.runbook
        for dashboard in every_dashboard()
        for row in dashboard.rows
        for panel in row.panels
    }

    assert named - {page.stem for page in PAGES} == {""}


@EACH
def test_a_page_first_says_how_to_relieve_users(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)

    assert parts[1::2] == ["Relieve users", "Meaning", "Impact", "Diagnosis", "Fix"]
    assert all(part.strip() for part in parts[2::2])
    assert "```sh" in parts[8]


@EACH
def test_a_page_names_what_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    fields = set(re.findall(r"`(spec\.[A-Za-z.]+[A-Za-z])`", text))
    for requested in re.findall(r"get mmm .*jsonpath=(.+)", text):
        fields |= set(re.findall(r"\{\.((?:spec|status)\.[A-Za-z.]+[A-Za-z])\}", requested))
    metrics = set(re.findall(r"\b(?:mm|nv)_[a-z_]+\b", text))
    known = {metric.name for metric in CATALOGUE} | UPSTREAM

    assert [field for field in sorted(fields) if not spec_has(field)] == []
    assert metrics - known == set()
