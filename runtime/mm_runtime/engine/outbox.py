"""A thread that talks to Triton for the engine's thread, which then never waits for the server.

Sending a response, and asking whether a client has gone, return when tritonserver has taken notice.
Its threads may have to wait for a core, while a burst of pictures is decoded and encoded; done
between two steps, each such wait would be one of every running stream.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger(__name__)

Call = Callable[[], None]


class Watched(Protocol):
    """An answer whose client may go."""

    @property
    def closed(self) -> bool:
        """Whether its end was handed over: nobody needs to look any more."""

    def look(self) -> None:
        """Ask Triton whether the client has gone, and remember it."""


class Outbox:
    """Runs calls one after the other, in the order in which they were put, and looks for clients.

    Safe to be used from any thread.
    """

    def __init__(self, *, looked_every_seconds: float, looked_at_once: int) -> None:
        """Start the thread.

        Args:
            looked_every_seconds: time between two rounds of looks.
            looked_at_once: answers of a round. When more are open they take turns: those that wait
                hold nothing, and each look costs a call into Triton (0.1 ms).
        """
        self._every, self._at_once = looked_every_seconds, looked_at_once
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._open: deque[Watched] = deque()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def put(self, call: Call) -> None:
        """Run a call soon; what it raises is logged."""
        self._calls.put(call)

    def watch(self, answer: Watched) -> None:
        """Look after an answer until it is closed."""
        self._open.append(answer)
        self._calls.put(_nothing)  # wakes the thread, which sleeps without end while none is open

    def close(self, timeout: float = 5.0) -> None:
        """Run what was put before, then end the thread."""
        self._calls.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        looked = time.monotonic()
        while True:
            try:
                # Without an open answer nothing is looked for: an idle server sleeps.
                call = self._calls.get(timeout=self._every if self._open else None)
            except queue.Empty:
                pass
            else:
                if call is None:
                    return
                _run(call)
            if time.monotonic() - looked >= self._every:
                self._look()
                looked = time.monotonic()

    def _look(self) -> None:
        for _ in range(min(self._at_once, len(self._open))):
            answer = self._open.popleft()
            if not answer.closed:
                _run(answer.look)
                self._open.append(answer)


def _nothing() -> None:
    """Do nothing."""


def _run(call: Call) -> None:
    """Run a call; the thread lives on for the others, whatever happens."""
    try:
        call()
    except Exception:
        logger.exception("a call into Triton failed")
