"""The rule file: every group, as Prometheus and a PrometheusRule object read it."""

from typing import Any

from mm_observability.rules import alerts, objectives
from mm_observability.rules.rule import Group


def every_group() -> tuple[Group, ...]:
    """Return every group, recording rules first."""
    return (objectives.group(), *alerts.groups())


def document() -> dict[str, Any]:
    return {"groups": [group.to_group() for group in every_group()]}
