"""Threads that call Triton for the engine's thread, which then never waits for the server.

Sending a response, and polling for a cancellation, return when tritonserver has taken notice.
Its threads may have to wait for a core, while a burst of images is decoded and encoded; done
between two steps, each such wait would be one of every running stream. For the same reason there
are several: while one waits with a token of one answer, those of others are on their way.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import cycle
from typing import Protocol

logger = logging.getLogger(__name__)

Call = Callable[[], None]

RESPONSE_SENDERS = 4
"""For the answers of one engine. With four, eight streams took a fifth less processor time on their
way from the engine to the client than with one: tokens of one step are turned into text together
more often. Each of them came 1.5 ms sooner (traced on two cores, docs/studies/shared-cores.md)."""


class OpenResponse(Protocol):
    """A response whose client may cancel it."""

    @property
    def closed(self) -> bool:
        """Whether its last response was queued: it needs no further poll."""

    def poll_cancellation(self) -> None:
        """Poll Triton for a cancellation of the request, and remember it."""


class ResponseSender:
    """Runs calls one after the other, in the order in which they were put, and polls cancellations.

    Safe to be used from any thread.
    """

    def __init__(self, *, poll_seconds: float) -> None:
        """Start the thread; every open response is polled once in so many seconds."""
        self._poll_seconds = poll_seconds
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._open: deque[OpenResponse] = deque()
        self._thread = threading.Thread(target=self._run, name="response-sender", daemon=True)
        self._thread.start()

    def put(self, call: Call) -> None:
        """Run a call soon; what it raises is logged."""
        self._calls.put(call)

    def watch(self, answer: OpenResponse) -> None:
        """Poll the cancellation of a response until it is closed."""
        self._open.append(answer)
        self._calls.put(_nothing)  # wakes the thread, which sleeps without end while none is open

    def close(self, timeout: float = 5.0) -> None:
        """Run what was put before, then end the thread."""
        self._calls.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        polled = time.monotonic()
        while True:
            try:
                # Without an open answer nothing is looked for: an idle server sleeps.
                call = self._calls.get(timeout=self._poll_seconds if self._open else None)
            except queue.Empty:
                pass
            else:
                if call is None:
                    return
                _run(call)
            if self._open and time.monotonic() - polled >= self._poll_seconds:
                self._poll()
                polled = time.monotonic()

    def _poll(self) -> None:
        for _ in range(len(self._open)):
            answer = self._open.popleft()
            if not answer.closed:
                _run(answer.poll_cancellation)
                self._open.append(answer)


class ResponseSenders:
    """Several senders, of which each answer has one: what it says stays in order."""

    def __init__(self, make: Callable[[], ResponseSender], count: int) -> None:
        self._all = tuple(make() for _ in range(count))
        self._next = cycle(self._all)

    def choose(self) -> ResponseSender:
        """Return the outbox of one more answer; called from one thread."""
        return next(self._next)

    def put(self, call: Call) -> None:
        """Run a call soon that belongs to no answer."""
        self._all[0].put(call)

    def close(self, timeout: float = 5.0) -> None:
        """Run what was put before, then end the threads; each has so many seconds for that."""
        for one in self._all:
            one.close(timeout)


def _nothing() -> None:
    """Do nothing."""


def _run(call: Call) -> None:
    """Run a call; the thread lives on for the others, whatever happens."""
    try:
        call()
    except Exception:
        logger.exception("a call into Triton failed")
