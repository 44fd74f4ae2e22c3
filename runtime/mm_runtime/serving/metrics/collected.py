"""Changes of metrics, collected for a moment and written together by a thread.

Each write is a message to the server whose answer is awaited. One by one they took more of the
encoder's process than the encoding of small images, and as much again of the server's.
"""

import logging
import threading
from typing import Any

logger = logging.getLogger(__name__)

COLLECTED_SECONDS = 0.25
"""How late a change may be on the page, which is read every second while a server drains, and
every 5 s at the soonest otherwise (the operator's autoscaler)."""


class Series:
    """One metric with its labels; does nothing once it is ended. For any thread."""

    triton_kind: str
    """Kind of its family, as Triton's Python backend calls it."""

    def __init__(self, triton: Any, changes: "Changes") -> None:
        self._triton = triton
        self._changes = changes

    def write(self) -> None:
        """Write what has changed; the caller holds the lock of the changes."""
        if (metric := self._triton) is not None:
            self._write(metric)

    def end(self) -> None:
        self._triton = None

    def _write(self, metric: Any) -> None:
        raise NotImplementedError


class Counter(Series):
    """Only grows."""

    triton_kind = "COUNTER"
    _owed = 0.0
    """What was not written yet."""

    _total = 0.0

    def reach(self, total: float) -> None:
        """Grow to a total that one other thread counts; a smaller one changes nothing."""
        grown = max(0.0, total - self._total)
        self._total += grown
        self.increment(grown)

    def increment(self, value: float) -> None:
        if value:
            with self._changes.lock:
                self._owed += value
                self._changes.add(self)

    def _write(self, metric: Any) -> None:
        owed, self._owed = self._owed, 0.0
        metric.increment(owed)


class Gauge(Series):
    """Has a value, of which the last counts."""

    triton_kind = "GAUGE"
    _value = 0.0
    _written: float | None = None
    """None: nothing yet. A process before this one may have left a value on the page."""

    def set(self, value: float) -> None:
        """Set it; at once where the page says 0, because a server without work may be stopped."""
        with self._changes.lock:
            self._value = value
            if self._written:
                self._changes.add(self)
            else:
                self.write()

    def _write(self, metric: Any) -> None:
        if self._value != self._written:
            metric.set(self._value)
            self._written = self._value


class Changes:
    """Series that have changed, written by a thread that starts with the first of them.

    Attributes:
        lock: held while a series changes, and while it is written.
    """

    def __init__(self, *, collected_seconds: float = COLLECTED_SECONDS) -> None:
        self.lock = threading.Lock()
        self._collected_seconds = collected_seconds
        self._changed: dict[Series, None] = {}
        self._some, self._ending = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, series: Series) -> None:
        """Write a series soon; the caller holds the lock."""
        self._changed[series] = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
            self._thread.start()
        self._some.set()

    def close(self) -> None:
        """End the thread, then write what is left."""
        self._ending.set()
        self._some.set()
        if (thread := self._thread) is not None:
            thread.join()
        self._write()

    def _run(self) -> None:
        # Its end is looked for first: a write beside `close` clears what would wake it.
        while not self._ending.is_set() and self._some.wait():
            if not self._ending.wait(self._collected_seconds):
                self._write()

    def _write(self) -> None:
        with self.lock:
            self._some.clear()
            changed, self._changed = self._changed, {}
            for series in changed:
                try:
                    series.write()
                except Exception:
                    logger.exception("a metric could not be written")
