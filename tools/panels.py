"""Draw the first screen of a dashboard's JSON as HTML, from what a Prometheus answers.

It knows what this project's dashboards use: lines, numbers, tables and states over time, units,
thresholds and mappings. Collapsed rows are named only. It replaces no Grafana: images are for
docs, and a look at a dashboard where none can be installed.
"""

import html
import json
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from support.promql import substituted

ROOT: Final = Path(__file__).resolve().parent.parent
BOARDS: Final = ROOT / "charts" / "multimodal-operator" / "files" / "dashboards"
MINUTES: Final = 2.5
STEP: Final = 2  # seconds
HEIGHT: Final = 90
COLUMN: Final = 56  # pixels of one of Grafana's 24 columns, on a page of 1400
COLOURS: Final = (
    *("#3274d9", "#d9731a", "#2f8f46", "#b0413e"),
    *("#8250df", "#7a6c00", "#0e8a8a", "#c2417c"),
)
NAMED: Final = {"green": "#2f8f46", "red": "#c4312b", "orange": "#c8720b"}
STYLE: Final = (Path(__file__).parent / "panels.css").read_text(encoding="utf-8")

Api = Callable[..., Any]
Series = tuple[str, list[tuple[float, float]], bool]
"""Legend, points, and whether it is drawn as dashes."""


def page(uid: str, api: Api) -> str:
    """Return the page of a dashboard; `api` queries a Prometheus as `support.prometheus` does."""
    board = json.loads((BOARDS / f"{uid}.json").read_text(encoding="utf-8"))
    parts, collapsed = [], []
    for panel in board["panels"]:
        if panel["type"] == "row":
            if panel.get("panels"):
                collapsed.append(panel["title"])
            else:
                parts.append(f"</div><h2>{html.escape(panel['title'])}</h2><div class=grid>")
        else:
            body = DRAWN[panel["type"]](panel, api)
            width = panel["gridPos"]["w"]
            title = f"<b>{html.escape(panel['title'])}</b>"
            parts.append(f'<div class=panel style="grid-column: span {width}">{title}{body}</div>')
    more = "".join(f"<h2>▸ {html.escape(title)}</h2>" for title in collapsed)
    words = f"{html.escape(board['title'])} <span>{html.escape(board['description'])}</span>"
    head = f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><h1>{words}</h1>"
    return f"{head}<div>{''.join(parts)}</div>{more}"


def _series(panel: dict[str, Any], api: Api) -> list[Series]:
    end = time.time()
    dashes = [
        one["matcher"]["options"].strip("/")
        for one in panel["fieldConfig"].get("overrides", ())
        if one["matcher"]["id"] == "byRegexp"
    ]
    found = []
    for query in panel["targets"]:
        span = {"start": str(end - MINUTES * 60), "end": str(end), "step": str(STEP)}
        answer = api("query_range", query=substituted(query["expr"]), **span)["result"]
        for one in answer:
            name = query["legendFormat"]
            for label, value in one["metric"].items():
                name = name.replace(f"{{{{{label}}}}}", value)
            points = [(at, float(text)) for at, text in one["values"] if text != "NaN"]
            dashed = any(re.search(each, name) for each in dashes)
            found.append((name, points, dashed))
    return found


def _lines(panel: dict[str, Any], api: Api) -> str:
    found = [one for one in _series(panel, api) if one[1]]
    if not found:
        return "<p>no data"
    stacked = panel["fieldConfig"]["defaults"].get("custom", {}).get("stacking", {}).get("mode")
    unit, end = panel["fieldConfig"]["defaults"].get("unit", ""), time.time()
    below: dict[float, float] = {}
    drawn, rows, tops = [], [], []
    for number, (name, own, dashed) in enumerate(found):
        last, most, points = own[-1][1], max(value for _, value in own), own
        if stacked == "normal":
            points = [(at, below.get(round(at), 0.0) + value) for at, value in own]
            below |= {round(at): value for at, value in points}
        tops.append(max(value for _, value in points))
        colour = COLOURS[number % len(COLOURS)]
        drawn.append((points, colour, dashed))
        rows.append(
            f'<tr><td><i style="background:{colour}"></i>{html.escape(name)}'
            f"<td>{said(last, unit)}<td>{said(most, unit)}"
        )
    width = panel["gridPos"]["w"] * COLUMN - 20
    top = panel["fieldConfig"]["defaults"].get("max") or max(tops) * 1.1 or 1
    shapes = []
    for share in (0, 0.5, 1):
        y = HEIGHT - 4 - share * (HEIGHT - 14)
        shapes.append(f"<line x1=48 x2={width} y1={y} y2={y} />")
        shapes.append(f"<text x=0 y={y + 3}>{said(top * share, unit)}</text>")
    for points, colour, dashed in drawn:
        at = [
            f"{width - (end - when) / (MINUTES * 60) * (width - 48):.1f},"
            f"{HEIGHT - 4 - min(value / top, 1) * (HEIGHT - 14):.1f}"
            for when, value in points
        ]
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        shapes.append(
            f'<polyline fill=none stroke="{colour}" stroke-width=1.3{dash} '
            f'vector-effect=non-scaling-stroke points="{" ".join(at)}" />'
        )
    svg = f'<svg viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio=none>{"".join(shapes)}</svg>'
    return f"{svg}<table><tr><th><th>last<th>max{''.join(rows)}</table>"


def _number(panel: dict[str, Any], api: Api) -> str:
    answer = api("query", query=substituted(panel["targets"][0]["expr"]))["result"]
    if not answer:
        return "<div class=number>no data</div>"
    value = float(answer[0]["value"][1])
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", ())
    colour = "inherit"
    for step in steps:
        if step["value"] is None or value >= step["value"]:
            colour = NAMED[step["color"]]
    unit = panel["fieldConfig"]["defaults"].get("unit", "")
    return f'<div class=number style="color:{colour}">{said(value, unit)}</div>'


def _table(panel: dict[str, Any], api: Api) -> str:
    answer = api("query", query=substituted(panel["targets"][0]["expr"]))["result"]
    column = panel["targets"][0]["legendFormat"]
    maps: dict[str, dict[str, str]] = {}
    linked = set()
    for one in panel["fieldConfig"].get("overrides", ()):
        for change in one["properties"]:
            if change["id"] == "mappings":
                maps = change["value"][0]["options"]
            elif change["id"] == "links":
                linked.add(one["matcher"]["options"])
    names = [*answer[0]["metric"], column] if answer else [column]
    rows = []
    for one in answer:
        cells = [
            f"<td>{'<a href=#>' if name in linked else ''}{html.escape(value)}"
            for name, value in one["metric"].items()
        ]
        shown = maps.get(one["value"][1], {"text": one["value"][1], "color": "green"})
        cells.append(f'<td style="color:{NAMED[shown["color"]]}">{html.escape(shown["text"])}')
        rows.append(f"<tr>{''.join(cells)}")
    head = "".join(f"<th>{html.escape(name)}" for name in names)
    return f"<table class=table><tr>{head}{''.join(rows)}</table>"


def _states(panel: dict[str, Any], api: Api) -> str:
    end, rows = time.time(), []
    for name, points, _ in _series(panel, api):
        bars = "".join(
            f"<rect x={400 - (end - at) / (MINUTES * 60) * 400:.1f} width=4 height=12 "
            f'fill="{NAMED["green"] if value else "#8a939e"}" />'
            for at, value in points
        )
        svg = f'<svg class=states viewBox="0 0 400 12" preserveAspectRatio=none>{bars}</svg>'
        rows.append(f"<tr><td>{html.escape(name)}<td class=bar>{svg}")
    return f"<table>{''.join(rows)}</table>"


DRAWN: Final = {"timeseries": _lines, "stat": _number, "table": _table, "state-timeline": _states}


def said(value: float, unit: str) -> str:
    """Return a number with its unit, as short as Grafana writes it."""
    if math.isnan(value):
        return "-"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s" and value < 1:
        return f"{value * 1000:.3g} ms"
    short = {"reqps": "/s", "ops": "/s", "tokens/s": "/s", "none": ""}.get(unit, unit)
    thousands = " k" if value >= 1000 else ""  # noqa: PLR2004
    return f"{value / 1000 if thousands else value:.3g}{thousands} {short}".strip()
