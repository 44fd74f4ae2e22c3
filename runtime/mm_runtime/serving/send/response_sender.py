"""Threads that call Triton for the engine's thread, which then never waits for the server.

Sending a response, and polling for a cancellation, return when tritonserver has taken notice.
Its threads may have to wait for a core, while a burst of images is decoded and encoded; done
between two steps, each such wait would be one of every running stream. For the same reason there
are several: while one waits with a token of one answer, those of others are on their way. And they
poll for cancellations no more often than the plan needs.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import cycle
from math import ceil
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

    def __init__(
        self, *, poll_interval_seconds: float, poll_within_seconds: float, max_polls_per_round: int
    ) -> None:
        """Start the thread.

        Args:
            poll_interval_seconds: least time between two rounds of polls.
            poll_within_seconds: a cancellation is detected within this time. Open responses take
                turns: a poll is a call into Triton that costs as much as sending a token.
            max_polls_per_round: responses polled per round at most. With more open responses
                detection takes longer: those that wait for a slot hold no resources.
        """
        self._every, self._within = poll_interval_seconds, poll_within_seconds
        self._at_once = max_polls_per_round
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
                call = self._calls.get(timeout=self._pause() if self._open else None)
            except queue.Empty:
                pass
            else:
                if call is None:
                    return
                _run(call)
            if self._open and time.monotonic() - polled >= self._pause():
                self._poll()
                polled = time.monotonic()

    def _pause(self) -> float:
        return seconds_between_rounds(len(self._open), self._every, self._within)

    def _poll(self) -> None:
        polls = polls_per_round(len(self._open), self._every, self._within)
        for _ in range(min(self._at_once, polls)):
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


def seconds_between_rounds(answers: int, every: float, within: float) -> float:
    """Return the time from one round of polls to the next: longer while one answer is its share.

    `every`: seconds at the least. `within`: seconds within which each of the open `answers` is
    looked at.
    """
    return max(every, within / answers)


def polls_per_round(answers: int, every: float, within: float) -> int:
    """Return how many open answers are looked at together, so that each has its turn."""
    return ceil(answers * min(1.0, every / within))


def _nothing() -> None:
    """Do nothing."""


def _run(call: Call) -> None:
    """Run a call; the thread lives on for the others, whatever happens."""
    try:
        call()
    except Exception:
        logger.exception("a call into Triton failed")
