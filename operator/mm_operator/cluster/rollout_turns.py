"""Which models roll out by turns, which wait, and whose turn it is: kept as models are reconciled.

Read at every reconcile, so nothing here walks the models. Only when a rollout fails, or a failed
one is over, are all that wait reconciled: their status names it.

What rolls is read from Deployments, so a new leader knows it once it has seen every model; until
then nothing begins.
"""

import heapq
import logging
from collections.abc import Callable, Iterable

from mm_operator.cluster.keys import Key
from mm_operator.model import RolloutTurn, Turn

_LOG = logging.getLogger(__name__)

_LOOKS = 5
"""At a model, before it is left out: the API server may be slow, and one model's defect may not
stop every upgrade. With the queue's back-off they take some seconds."""

_SPARE = 2
"""The heap is rebuilt when it is this many times as long as the models that wait."""


class RolloutTurns:
    """The turns of one leader: at most `most` models roll out at a time."""

    def __init__(self, most: int, wake: Callable[[Key], None]) -> None:
        self._most = most
        self._wake = wake
        self._unseen: dict[Key, int] = {}
        self._rolling: set[Key] = set()
        self._failing: dict[Key, str] = {}
        self._waiting: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []

    def restart(self, keys: Iterable[Key]) -> None:
        """Forget what an earlier time as leader knew; every one of `keys` is reconciled next."""
        self._unseen = dict.fromkeys(keys, _LOOKS)
        self._rolling.clear()
        self._failing.clear()
        self._waiting.clear()
        self._heap.clear()

    def turn(self, key: Key) -> Turn:
        free = not self._failing and len(self._rolling) < self._most and self._first() == key
        granted = not self._unseen and (key in self._rolling or free)
        return Turn(granted, self._most, self._first_failing())

    def note(self, key: Key, rollout: RolloutTurn) -> None:
        """Take where a model stands, and wake those whose turn follows from it."""
        self._unseen.pop(key, None)
        before = self._first_failing()
        if rollout.rolls:
            self._rolling.add(key)
            if rollout.failure and key not in self._failing:
                # It stays until the rollout is over: pods that crash seem to start now and then.
                self._failing[key] = rollout.failure
                _LOG.warning(
                    "rollouts by turns stop: the one of %s failed: %s", key, rollout.failure
                )
        else:
            self._rolling.discard(key)
            self._failing.pop(key, None)
        if rollout.waits:
            self._wait(key, rollout.use)
        else:
            self._waiting.pop(key, None)
        after = self._first_failing()
        if before != after:
            if not after:
                _LOG.info("rollouts by turns continue: the one of %s is over", before)
            for waiting in tuple(self._waiting):
                self._wake(waiting)
        self._wake_next()

    def missed(self, key: Key) -> None:
        """Take that a model could not be looked at: the others wait for it a few times."""
        if key in self._unseen:
            self._unseen[key] -= 1
            if not self._unseen[key]:
                del self._unseen[key]
                self._wake_next()

    def _wait(self, key: Key, use: float) -> None:
        if self._waiting.get(key) == use:
            return
        self._waiting[key] = use
        heapq.heappush(self._heap, (use, key))
        if len(self._heap) > _SPARE * len(self._waiting):
            # A sorted list is a heap.
            self._heap = sorted((use, key) for key, use in self._waiting.items())

    def _first(self) -> Key | None:
        while self._heap and self._waiting.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def _first_failing(self) -> str:
        return str(next(iter(self._failing), ""))

    def _wake_next(self) -> None:
        if self._unseen:
            return
        for key in self._rolling & self._waiting.keys():  # a newer revision than it began with
            self._wake(key)
        if not self._failing and len(self._rolling) < self._most and (first := self._first()):
            self._wake(first)
