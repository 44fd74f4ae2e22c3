"""Goals of the gateway's benches: each figure beside its bound, met or missed."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure and what it should be."""

    what: str
    figure: float
    bound: float
    at_least: bool = False
    """The figure should be at least the bound; else at most."""

    @property
    def is_met(self) -> bool:
        """Whether the figure is within the bound."""
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound


def to_json(goals: Sequence[Goal]) -> list[dict[str, object]]:
    """Return the goals as they are written in results."""
    return [{**asdict(goal), "met": goal.is_met} for goal in goals]


def to_lines(goals: Sequence[Goal]) -> str:
    """Return a line a goal."""
    return "\n".join(
        f"{'met   ' if goal.is_met else 'MISSED'} {goal.what}: {goal.figure:g} "
        f"({'at least' if goal.at_least else 'at most'} {goal.bound:g})"
        for goal in goals
    )
