"""A dashboard as plain values: rows of panels, each with its queries."""

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["timeseries", "stat", "table", "state"]
FULL, HALF, THIRD, QUARTER = 24, 12, 8, 6
"""Widths on Grafana's grid of 24 columns."""


@dataclass(frozen=True, slots=True)
class Query:
    """An expression and how its series are called; a table's column is called by the legend."""

    expression: str
    legend: str = ""


Step = tuple[float | None, str]
"""From this value on the colour; the first step has no value."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. The description says what to look for, for a first-time reader."""

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = "none"
    kind: Kind | None = None
    width: int | None = None
    """None, of both: the row's."""
    steps: tuple[Step, ...] = ()
    dashed: str = ""
    """Regular expression of the series that are targets or bounds, drawn as dashed lines."""
    stacked: bool = False
    most: float | None = None
    runbook: str = ""
    """Name of the alert whose runbook helps."""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]
    width: int = HALF
    kind: Kind = "timeseries"
    collapsed: bool = False
    """Opened by who needs it: the first screen has what everyone looks at."""


def panel(title: str, description: str, *queries: Query, **options: Any) -> Panel:
    """Return a panel; `options`: its other fields."""
    return Panel(title, description, queries, **options)


def row(title: str, *panels: Panel, **options: Any) -> Row:
    return Row(title, panels, **options)


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard. Its uid never changes: links and bookmarks hold it."""

    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    chooses_model: bool = True
    annotation: Query | None = None
    """Moments to mark in every panel."""


GOOD_ABOVE = ((None, "red"), (0.9, "orange"), (0.95, "green"))
"""Attainment; 0.95 is the API's default percentile. Panels draw each model's own target beside."""

NONE_IS_GOOD = ((None, "green"), (1, "red"))
FEW_IS_GOOD = ((None, "green"), (0.1, "red"))
"""A share; 0.1 is the threshold of MultimodalOperatorReconcileErrors."""
SOME_IS_GOOD = ((None, "red"), (1, "green"))
FULL_IS_BAD = ((None, "green"), (0.8, "orange"), (0.95, "red"))
