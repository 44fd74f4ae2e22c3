"""Requests that have no slot yet, in the order in which they came."""

import threading
from collections import deque

from mm_runtime.reference_engine.sinks import cancel, fail, is_cancelled
from mm_runtime.serving.generate.request import Request, Sink


class Waiting:
    """Of one engine. Each method but the length takes its lock, which a caller may hold."""

    def __init__(self, lock: threading.Condition) -> None:
        self._lock = lock
        self._entries: deque[tuple[Request, Sink]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, request: Request, sink: Sink) -> None:
        with self._lock:
            self._entries.append((request, sink))

    def take(self) -> tuple[Request, Sink] | None:
        """Remove the one that waited longest; None: none waits."""
        with self._lock:
            return self._entries.popleft() if self._entries else None

    def first(self) -> Request | None:
        """Return the one that waited longest; None: none waits."""
        with self._lock:
            return self._entries[0][0] if self._entries else None

    def drop_cancelled(self) -> bool:
        """Remove and close those whose clients have cancelled; return whether there were any."""
        with self._lock:
            entries = tuple(self._entries)
        gone = [sink for _, sink in entries if is_cancelled(sink)]
        # By identity: requests of several clients may be equal.
        leaving = {id(sink) for sink in gone}
        if gone:
            with self._lock:
                staying = [entry for entry in self._entries if id(entry[1]) not in leaving]
                self._entries = deque(staying)
        for sink in gone:
            cancel(sink)
        return bool(gone)

    def fail(self, error: Exception) -> None:
        with self._lock:
            entries, self._entries = self._entries, deque()
        for _, sink in entries:
            fail(sink, error)
