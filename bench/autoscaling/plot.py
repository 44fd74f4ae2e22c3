"""A cost-attainment image as SVG: hours to the right, misses downwards on a logarithmic scale."""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 210, 40, 50
COLOURS = (
    "#d62728",
    "#ff9896",
    "#1f77b4",
    "#2ca02c",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#17becf",
    "#7f7f7f",
    "#bcbd22",
)
KEPT = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
"""Marks of the attainment axis, in percent."""


@dataclass(frozen=True)
class Line:
    """One policy: (replica hours, percent kept), cheapest first."""

    name: str
    points: list[tuple[float, float]]


def frontier(title: str, lines: list[Line]) -> str:
    """Return the image."""
    hours = [cost for line in lines for cost, _ in line.points]
    low, high = 0.0, max(hours) * 1.02
    body = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            'font-family="sans-serif" font-size="12">'
        ),
        '<rect width="100%" height="100%" fill="white"/>',
        (
            f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}: requests that kept the '
            "objectives, over replica hours</text>"
        ),
    ]
    for mark in KEPT:
        y = _y(mark)
        body.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:g} %</text>'
        )
    step = 10 ** math.floor(math.log10(high)) / 2
    for index in range(int(high / step) + 1):
        x = _x(index * step, low, high)
        body.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
            f"{index * step:g}</text>"
        )
    body.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
        "replica hours</text>"
    )
    for number, line in enumerate(lines):
        body.extend(_drawn(line, COLOURS[number % len(COLOURS)], number, low, high))
    return "\n".join([*body, "</svg>"]) + "\n"


def _drawn(line: Line, colour: str, number: int, low: float, high: float) -> list[str]:
    places = [(_x(cost, low, high), _y(kept)) for cost, kept in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    width = 2.5 if number == 0 else 1.2
    drawn = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>']
    drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
    y = TOP + 14 + 20 * number
    drawn.append(
        f'<circle cx="{WIDTH - RIGHT + 16}" cy="{y - 4}" r="4" fill="{colour}"/>'
        f'<text x="{WIDTH - RIGHT + 26}" y="{y}">{escape(line.name)}</text>'
    )
    return drawn


def _x(hours: float, low: float, high: float) -> float:
    return LEFT + (hours - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _y(kept: float) -> float:
    """Return the place of a percentage: each factor of ten of misses is as high as the last."""
    missed = min(100.0, max(0.005, 100.0 - kept))
    share = (math.log10(100.0) - math.log10(missed)) / (math.log10(100.0) - math.log10(0.005))
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
