"""A dashboard as plain values: rows of panels, each with its queries.

They are read from the YAML files beside this module. A query returns one series per (namespace,
model) unless its panel says otherwise: pods are summed or maximised away, so that a restarted pod
is not a new line. No query clamps a denominator: without requests a ratio has no value, and one
request in an hour counts as one.
"""

from importlib.resources import files
from typing import Annotated, Final, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict

Kind = Literal["timeseries", "stat", "table", "state"]
Thresholds = Literal[
    "none", "attainment", "none-is-good", "few-is-good", "some-is-good", "full-is-bad"
]

CHOSEN: Final = 'namespace=~"$namespace",model=~"$model"'
"""What the dashboards' variables choose; `$chosen` in the files."""

STEPS: Final[dict[Thresholds, tuple[tuple[float | None, str], ...]]] = {
    "none": (),
    # 0.95 is the API's default percentile. Panels draw each model's own target beside.
    "attainment": ((None, "red"), (0.9, "orange"), (0.95, "green")),
    "none-is-good": ((None, "green"), (1, "red")),
    # Of shares; 0.1 is the threshold of MultimodalOperatorReconcileErrors.
    "few-is-good": ((None, "green"), (0.1, "red")),
    "some-is-good": ((None, "red"), (1, "green")),
    "full-is-bad": ((None, "green"), (0.8, "orange"), (0.95, "red")),
}
"""From each value on its colour; the first step has no value."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Query(_Part):
    """PromQL, and how its series are called; a table's column is called by the legend."""

    expr: Annotated[str, AfterValidator(lambda text: text.replace("$chosen", CHOSEN))]
    legend: str = ""


class Panel(_Part):
    """One panel. The description says what to look for, for a first-time reader."""

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = "none"
    kind: Kind | None = None
    width: int | None = None
    """None, of both: the row's."""
    thresholds: Thresholds = "none"
    dashed: str = ""
    """Regular expression of the series that are targets or bounds, drawn as dashed lines."""
    stacked: bool = False
    most: float | None = None
    runbook: str = ""
    """Name of the alert whose runbook helps."""


class Row(_Part):
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]
    width: int = 12
    """A panel's, on Grafana's grid of 24 columns."""
    kind: Kind = "timeseries"
    collapsed: bool = False
    """Opened by who needs it: the first screen has what everyone looks at."""


class Dashboard(_Part):
    """One dashboard. Its uid never changes: links and bookmarks hold it."""

    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    chooses_model: bool = True
    annotation: Query | None = None
    """Moments to mark in every panel."""


def every_dashboard() -> tuple[Dashboard, ...]:
    """Return every dashboard, in the order of Grafana's list."""
    folder = files("mm_observability.dashboards")
    return tuple(
        Dashboard.model_validate(yaml.safe_load((folder / f"{name}.yaml").read_text("utf-8")))
        for name in ("fleet", "model", "builds", "autoscaling", "operator", "router", "cost")
    )
