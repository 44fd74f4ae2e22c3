"""Which of the requests that wait is next: deficit round robin between keys, by tokens.

Each key has a queue of its own. In every round each of them may send tokens up to its weight, and
keeps what it did not use; so a key with a thousand requests, or with long ones, delays another one
by no more than a share. Within a key the order is that of arrival.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Item = TypeVar("_Item")

_QUANTUM = 256
"""Tokens of one round and weight 1: a short question. Smaller ones change the order no more."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What decides when a request is next.

    `tokens`: of prompt, features and longest answer; 0: not counted. `counted`: whether it belongs
    to the load that others go by. `displaced`: called once another request waits for its slot;
    None: it keeps it.
    """

    key: str = ""
    weight: int = 1
    tokens: int = 0
    counted: bool = True
    displaced: Callable[[], None] | None = None


PLAIN = Ticket()
"""For requests that no client sent."""

UNCOUNTED = Ticket(counted=False)
"""For requests that no client sent, beside which clients may come: they take slots and no
places."""


@dataclass(eq=False, slots=True)
class Waiting(Generic[_Item]):
    """One request that waits; none is equal to another."""

    ticket: Ticket
    item: _Item


@dataclass(slots=True)
class _Flow(Generic[_Item]):
    """The queue of one key."""

    weight: int
    deficit: float = 0.0
    waiting: deque[Waiting[_Item]] = field(default_factory=deque)

    @property
    def rounds(self) -> int:
        missing = self.waiting[0].ticket.tokens - self.deficit
        return max(0, math.ceil(missing / (_QUANTUM * self.weight)))


class FairQueue(Generic[_Item]):
    """The requests that wait for a slot."""

    def __init__(self) -> None:
        self._flows: dict[str, _Flow[_Item]] = {}
        self._turns: deque[str] = deque()
        self.tokens = 0

    def __len__(self) -> int:
        return sum(len(flow.waiting) for flow in self._flows.values())

    def push(self, ticket: Ticket, item: _Item) -> Waiting[_Item]:
        """Let a request wait; return what `remove` takes."""
        waiting = Waiting(ticket, item)
        flow = self._flows.get(ticket.key)
        if flow is None:
            flow = self._flows[ticket.key] = _Flow(ticket.weight)
            self._turns.append(ticket.key)
        flow.weight = ticket.weight
        flow.waiting.append(waiting)
        self.tokens += ticket.tokens
        return waiting

    def remove(self, waiting: Waiting[_Item]) -> None:
        """Take out a request that waits no longer; it may be out already."""
        flow = self._flows.get(waiting.ticket.key)
        if flow is not None and waiting in flow.waiting:
            self._take(waiting.ticket.key, waiting)

    def pop(self) -> _Item:
        """Return the next one; IndexError: none waits."""
        # As many rounds as pass before the first may go, at once: not a round after the other.
        rounds = min((flow.rounds for flow in self._flows.values()), default=0)
        if rounds > 1:
            for flow in self._flows.values():
                flow.deficit += (rounds - 1) * _QUANTUM * flow.weight
        while True:
            key = self._turns[0]
            flow = self._flows[key]
            if flow.rounds == 0:
                first = flow.waiting[0]
                flow.deficit -= first.ticket.tokens
                self._take(key, first)
                return first.item
            flow.deficit += _QUANTUM * flow.weight
            self._turns.rotate(-1)

    def _take(self, key: str, waiting: Waiting[_Item]) -> None:
        flow = self._flows[key]
        flow.waiting.remove(waiting)
        self.tokens -= waiting.ticket.tokens
        if not flow.waiting:
            # What it did not use is gone, too: silence saves nothing up.
            del self._flows[key]
            self._turns.remove(key)
