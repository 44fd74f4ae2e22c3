"""Events that wait to be posted: a bounded number, warnings first, none twice. Pure.

A stage that a model has left before its Event was posted is of no interest any more: the Event of
the next stage of the same condition supersedes it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mm_operator.cluster.packed import Packed

LIMIT = 5000
"""Events in memory at most: 4 MB; five for each of 1,000 models."""

Subject = tuple[str, str, str]
"""Uid of the model, reason, message."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One Event, and where it belongs."""

    subject: Subject
    warns: bool
    namespace: str
    body: Packed
    condition: tuple[str, str] = ("", "")
    """Uid of the model and type of the condition; empty for what is no condition's."""
    passing: bool = False
    """The condition waits for something, as in every ordinary life."""


class EventQueue:
    """Hands out warnings before ordinary Events, the oldest of each first.

    `dropped`: called with the reason of each that is given up: `Repeated`, `Superseded`,
    `QueueFull`.
    """

    def __init__(self, dropped: Callable[[str], None], limit: int = LIMIT) -> None:
        self._dropped = dropped
        self._limit = limit
        self._warnings: dict[Subject, Waiting] = {}
        self._ordinary: dict[Subject, Waiting] = {}
        self._passing: dict[tuple[str, str], Subject] = {}

    def __len__(self) -> int:
        return len(self._warnings) + len(self._ordinary)

    def put(self, waiting: Waiting) -> None:
        """Take an Event: in place of the same one that still waits, or of the least important."""
        alike = self._warnings if waiting.warns else self._ordinary
        stage = self._passing.pop(waiting.condition, waiting.subject)
        if stage != waiting.subject:
            del self._ordinary[stage]
            self._dropped("Superseded")
        if alike.pop(waiting.subject, None) is not None:
            self._dropped("Repeated")
        elif len(self) >= self._limit:
            self._dropped("QueueFull")
            if not self._ordinary and not waiting.warns:
                return
            self._remove_first(self._ordinary or self._warnings)
        alike[waiting.subject] = waiting
        if waiting.passing and not waiting.warns:
            self._passing[waiting.condition] = waiting.subject

    def take(self) -> Waiting:
        """Return the next one; there must be one."""
        return self._remove_first(self._warnings or self._ordinary)

    def _remove_first(self, waiting: dict[Subject, Waiting]) -> Waiting:
        first = waiting.pop(next(iter(waiting)))
        if self._passing.get(first.condition) == first.subject:
            del self._passing[first.condition]
        return first
