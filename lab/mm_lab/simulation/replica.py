"""One replica: a queue, slots, prompts one at a time, tokens of all running requests together.

Exact between events. Decoding is processor sharing: with k running requests every one of them gets
a token per step, so one virtual clock that counts steps serves all, and a request ends when that
clock reaches its number.
"""

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush

from mm_lab.simulation.meters import Meters
from mm_lab.simulation.profile import ServiceProfile
from mm_lab.simulation.request import Request

_NEVER = float("inf")


class Replica:
    """A pod that serves. `advance` moves it to a moment; arrivals come before."""

    __slots__ = (
        "_arriving",
        "_current",
        "_now",
        "_profile",
        "_prompt_end",
        "_running",
        "_sequence",
        "_steps",
        "_waiting",
    )

    def __init__(self, profile: ServiceProfile, at: float) -> None:
        self._profile = profile
        self._now = at
        self._steps = 0.0
        self._arriving: deque[Request] = deque()
        self._waiting: deque[Request] = deque()
        self._running: list[tuple[float, int, Request, float]] = []
        self._current: Request | None = None
        self._prompt_end = _NEVER
        self._sequence = 0

    @property
    def inside(self) -> int:
        """Requests that run or wait."""
        waiting = len(self._arriving) + len(self._waiting)
        return waiting + len(self._running) + (self._current is not None)

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._running) + (self._current is not None)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompts that are not read yet."""
        unread = [*self._arriving, *self._waiting, *([self._current] if self._current else ())]
        return sum(one.image_tokens + one.text_tokens for one in unread)

    def send(self, requests: Iterable[Request]) -> None:
        """Take requests that arrive after the present moment, in order."""
        self._arriving.extend(requests)

    def advance(self, until: float, meters: Meters) -> None:  # noqa: C901 (one loop, hot: a call per branch would double its time)
        """Move to `until`, reporting every first token and every end to `meters`."""
        profile = self._profile
        running, waiting, arriving = self._running, self._waiting, self._arriving
        now, steps = self._now, self._steps
        base, each, slots, beside = (
            profile.step_seconds,
            profile.step_seconds_per_request,
            profile.slots,
            profile.beside_seconds,
        )
        while True:
            while arriving and arriving[0].at + beside <= now:
                request = arriving.popleft()
                if len(waiting) >= profile.queue_size:
                    meters.refused(request)
                else:
                    waiting.append(request)
            if self._current is None and waiting and len(running) < slots:
                request = waiting.popleft()
                self._current = request
                meters.admitted(request, now)
                self._prompt_end = (
                    now
                    + profile.prompt_seconds
                    + profile.image_token_seconds * request.image_tokens
                    + profile.text_token_seconds * request.text_tokens
                )
            arrival = arriving[0].at + beside if arriving else _NEVER
            if self._current is not None:
                if arrival < self._prompt_end and arrival <= until:
                    now = arrival  # counted against the queue as it stands then
                    continue
                if self._prompt_end > until:
                    now = until
                    break
                now = self._prompt_end
                meters.first_token(self._current, now)
                left = max(1, self._current.output_tokens) - 1
                self._sequence += 1
                heappush(running, (steps + left, self._sequence, self._current, now))
                self._current = None
                continue
            if running:
                pace = base + each * len(running)
                end = now + (running[0][0] - steps) * pace
                if end <= arrival and end <= until:
                    steps = running[0][0]
                    now = max(now, end)
                    _, _, request, first = heappop(running)
                    meters.finished(request, first, now)
                    continue
                stop = min(arrival, until)
                steps += (stop - now) / pace
                now = stop
            else:
                now = min(arrival, until)
            if now >= until:
                break
        self._now, self._steps = until, steps
