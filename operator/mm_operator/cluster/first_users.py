"""Which model comes first of those of a namespace that use a store: kept as objects change.

One of them sweeps the store. Read at every reconcile, so it must not walk the store's engines.
"""

import heapq
from collections import Counter
from collections.abc import Iterable

User = tuple[str, str]
"""Name and uid of a model."""

Place = tuple[str, str]
"""Store and namespace."""

_SPARE = 2
"""A heap is rebuilt when this many times as long as there are users; then it costs each change
no more than a constant."""


class FirstUsers:
    """The users of each store in each namespace, counted once for each engine of theirs."""

    def __init__(self) -> None:
        self._counts: dict[Place, Counter[User]] = {}
        self._heaps: dict[Place, list[User]] = {}

    def add(self, place: Place, users: Iterable[User]) -> None:
        """Count one engine more of each user."""
        counts, heap = self._counts.setdefault(place, Counter()), self._heaps.setdefault(place, [])
        for user in users:
            counts[user] += 1
            if counts[user] == 1:
                heapq.heappush(heap, user)

    def remove(self, place: Place, users: Iterable[User]) -> None:
        """Count one engine less of each user."""
        counts = self._counts[place]
        for user in users:
            counts[user] -= 1
            if not counts[user]:
                del counts[user]
        if not counts:
            del self._counts[place], self._heaps[place]
        elif len(self._heaps[place]) > _SPARE * len(counts):
            self._heaps[place] = sorted(counts)  # a sorted list is a heap

    def first(self, place: Place) -> User | None:
        """Return the first user by name; None: no model uses the store."""
        counts, heap = self._counts.get(place), self._heaps.get(place)
        if not counts or not heap:
            return None
        while heap[0] not in counts:
            heapq.heappop(heap)
        return heap[0]
