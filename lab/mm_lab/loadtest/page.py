"""A run as one HTML file: the table, and distributions of latencies as plain SVG."""

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mm_lab.loadtest.results import Result

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 640, 260, 48, 28
_COLOURS: Final = ("#1f5fbf", "#c2410c")
_POINTS: Final = 200
"""In one curve: more are not seen."""

_STYLE: Final = (
    "body{font:15px system-ui;margin:2em auto;max-width:60em;color:#222}"
    "pre{background:#f5f5f5;padding:1em;overflow:auto}svg text{font:12px system-ui;fill:#444}"
)


def as_page(title: str, table: str, runs: Mapping[str, Sequence[Result]]) -> str:
    """Return the file's text; it needs nothing besides itself.

    Args:
        title: of the page.
        table: as it is printed.
        runs: results by the name of the endpoint, at most two.
    """
    answered = {name: [one for one in found if not one.error] for name, found in runs.items()}
    charts = [
        _chart("Time to the first token", answered, lambda one: one.time_to_first_token),
        _chart("End to end", answered, lambda one: one.end_to_end),
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1><pre>{html.escape(table)}</pre>"
        f"{''.join(charts)}</html>\n"
    )


def _chart(
    title: str,
    runs: Mapping[str, Sequence[Result]],
    measure: Callable[[Result], float | None],
) -> str:
    """Return the shares of requests that were not slower than a time, one curve for a run."""
    found = {
        name: sorted(value for one in results if (value := measure(one)) is not None)
        for name, results in runs.items()
    }
    most = max((values[-1] for values in found.values() if values), default=0.0)
    if not most:
        return ""
    marks = [
        _curve(values, most, colour)
        for values, colour in zip(found.values(), _COLOURS, strict=False)
    ]
    for number, (name, colour) in enumerate(zip(found, _COLOURS, strict=False)):
        marks.append(
            f'<text x="{_WIDTH - 8}" y="{_HEIGHT - _BOTTOM - 12 - 16 * number}" text-anchor="end" '
            f'style="fill:{colour}">{html.escape(name)}</text>'
        )
    for share in (0.0, 0.5, 0.95, 1.0):
        y = _y(share)
        marks.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        marks.append(f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{share:.0%}</text>')
    for part in (0.0, 0.5, 1.0):
        x = _LEFT + part * (_WIDTH - _LEFT)
        anchor = "end" if part else "start"
        text = f"{part * most * 1000:.0f} ms"
        marks.append(f'<text x="{x}" y="{_HEIGHT - 8}" text-anchor="{anchor}">{text}</text>')
    return (
        f'<h2>{html.escape(title)}</h2><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{html.escape(title)}">{"".join(marks)}</svg>'
    )


def _curve(values: Sequence[float], most: float, colour: str) -> str:
    step = max(1, len(values) // _POINTS)
    kept = [*range(0, len(values), step), len(values) - 1] if values else []
    points = " ".join(
        f"{_LEFT + values[at] / most * (_WIDTH - _LEFT):.1f},{_y((at + 1) / len(values)):.1f}"
        for at in kept
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _y(share: float) -> float:
    return 10 + (1 - share) * (_HEIGHT - _BOTTOM - 10)
