"""`make screenshots` draws the dashboards of the chart: here from two samples of one series."""

import html
import time
from typing import Any

import pytest

from mm_observability.dashboards.dashboard import Dashboard, every_dashboard
from support.scripts import load_tool

PANELS = load_tool("panels")
SERIES = {"metric": {"namespace": "demo", "model": "<llava>", "reason": "Ready"}}


def answer(path: str, **_: str) -> dict[str, Any]:
    """Answer as Prometheus does; the name of the model is an attempt at markup."""
    now = time.time()
    if path == "query":
        return {"result": [{**SERIES, "value": [now, "1"]}]}
    return {"result": [{**SERIES, "values": [[now - 9, "0"], [now - 1, "1"]]}]}


@pytest.mark.parametrize("dashboard", every_dashboard(), ids=lambda dashboard: dashboard.uid)
def test_first_screen_has_each_panel(dashboard: Dashboard) -> None:
    page = PANELS.page(dashboard.uid, answer)
    titles = [panel.title for row in dashboard.rows if not row.collapsed for panel in row.panels]

    assert [title for title in titles if f"<b>{html.escape(title)}</b>" not in page] == []
    assert page.count("<div class=panel ") == len(titles)
    assert "<llava>" not in page


def test_numbers_are_short() -> None:
    assert PANELS.said(0.0196, "s") == "19.6 ms"
    assert PANELS.said(2434.0, "tokens/s") == "2.43 k /s"
    assert PANELS.said(float("nan"), "none") == "-"
