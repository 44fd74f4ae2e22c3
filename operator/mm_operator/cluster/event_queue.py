"""Events that wait to be posted: a bounded number, warnings first, none twice. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LIMIT = 5000
"""Events in memory at most: 5 MB; five for each of 1,000 models."""

Subject = tuple[str, str, str]
"""Uid of the model, reason, message."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One Event, and where it belongs."""

    subject: Subject
    warns: bool
    namespace: str
    body: dict[str, Any]


class EventQueue:
    """Hands out warnings before ordinary Events, the oldest of each first.

    Args:
        dropped: called with the reason of each Event that is given up: `Repeated`, `QueueFull`.
        limit: how many wait at most.
    """

    def __init__(self, dropped: Callable[[str], None], limit: int = LIMIT) -> None:
        self._dropped = dropped
        self._limit = limit
        self._warnings: dict[Subject, Waiting] = {}
        self._ordinary: dict[Subject, Waiting] = {}

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._warnings) + len(self._ordinary)

    def put(self, waiting: Waiting) -> None:
        """Take an Event: in place of the same one that still waits, or of the least important."""
        alike = self._warnings if waiting.warns else self._ordinary
        if alike.pop(waiting.subject, None) is not None:
            self._dropped("Repeated")
        elif len(self) >= self._limit:
            self._dropped("QueueFull")
            if not self._ordinary and not waiting.warns:
                return
            least = self._ordinary or self._warnings
            del least[next(iter(least))]
        alike[waiting.subject] = waiting

    def take(self) -> Waiting:
        """Return the next one; there must be one."""
        first = self._warnings or self._ordinary
        return first.pop(next(iter(first)))
