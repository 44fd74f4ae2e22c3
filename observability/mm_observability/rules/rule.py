"""A rule and a group of rules, and their form in a rule file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

RUNBOOKS = "docs/runbooks"
"""The chart puts `observability.runbooks.address` in its place."""

Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class Recording:
    """An expression whose value is stored under a name: level:metric:operations."""

    record: str
    expression: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def to_rule(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"record": self.record, "expr": self.expression}
        return {**rule, "labels": dict(self.labels)} if self.labels else rule


@dataclass(frozen=True, slots=True)
class Alert:
    """A state that needs attention; critical means now, warning means today."""

    name: str
    expression: str
    summary: str
    description: str
    severity: Severity = "warning"
    lasts: str = "5m"
    """How long it must hold: shorter is not worth a notification."""

    def to_rule(self) -> dict[str, Any]:
        """Return the rule as a rule file has it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasts,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{RUNBOOKS}/{self.name}.md",
            },
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, in order."""

    name: str
    rules: tuple[Recording | Alert, ...]

    def to_group(self) -> dict[str, Any]:
        return {"name": self.name, "rules": [rule.to_rule() for rule in self.rules]}
