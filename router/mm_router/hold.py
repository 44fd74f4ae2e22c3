"""Requests that wait for a model without a ready replica: bounded by number, bytes and time.

A request is held only where a replica is to be expected, and only while it cannot have run. No
model holds more than is left free to others, so one that does not start keeps no other out.
"""

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from mm_edge.errors import RetryLaterError, UnknownModelError
from mm_router.catalog import Model
from mm_router.metrics import RouterMetrics

_LOADING_SECONDS = 5
"""Until the next attempt where no start was measured: one that loads takes longer."""

_RETRY_SECONDS = 1.0
"""Between two attempts of the oldest request at replicas that are full or drain."""

_COMMENT_SECONDS = 10.0
"""Silence of a stream before its head and a comment go out: below the 15 s after which the first
proxies give up, and long enough for an error to have a status of its own where a model is up."""

Comment = Callable[[], Awaitable[None]]


class Bound(StrEnum):
    """Why a request is not held, or no longer; the label of a metric."""

    REQUESTS = "requests"
    BYTES = "bytes"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class HoldLimits:
    """Bounds of one router; no requests or no seconds: none is held."""

    requests: int
    bytes: int
    seconds: float


@dataclass(slots=True)
class _Line:
    """The requests that wait for one model."""

    since: float
    bytes: int = 0
    turns: dict["Place", asyncio.Future[None] | None] = field(default_factory=dict)
    """In the order in which they came; None: one that is being tried."""
    retry: asyncio.TimerHandle | None = None

    def wake(self, most: int | None = None) -> None:
        waiting = (turn for turn in self.turns.values() if turn and not turn.done())
        for turn in itertools.islice(waiting, most):
            turn.set_result(None)

    def retry_later(self) -> None:
        if self.retry is None:  # one timer, however many wait
            loop = asyncio.get_running_loop()
            self.retry = loop.call_later(_RETRY_SECONDS, self._try_again)

    def end(self) -> None:
        if self.retry is not None:
            self.retry.cancel()

    def _try_again(self) -> None:
        self.retry = None
        self.wake(1)


class Holds:
    """Every held request of one router.

    Args:
        clock: seconds that only go forward.
    """

    def __init__(
        self, limits: HoldLimits, metrics: RouterMetrics, clock: Callable[[], float]
    ) -> None:
        self.limits = limits
        self.metrics = metrics
        self.clock = clock
        self._models: Mapping[tuple[str, str], Model] = {}
        self._lines: dict[tuple[str, str], _Line] = {}
        self._requests = 0
        self._bytes = 0

    def held(self) -> Mapping[tuple[str, str], int]:
        """Return how many requests wait, by namespace and name of the model."""
        return {key: len(line.turns) for key, line in self._lines.items()}

    def waited_seconds(self) -> Mapping[tuple[str, str], float]:
        """Return how long the oldest request of each model has waited."""
        now = self.clock()
        return {key: now - next(iter(line.turns)).began for key, line in self._lines.items()}

    def wake(self, model: tuple[str, str], most: int | None = None) -> None:
        """Let requests of a model try again, the oldest first: its replicas have changed.

        `most`: so many of them; None: all.
        """
        if line := self._lines.get(model):
            line.wake(most)

    def follow(self, models: Mapping[tuple[str, str], Model]) -> None:
        """Take the models that there are now: requests do not wait for one that will not start."""
        self._models = models
        for key, line in self._lines.items():
            model = models.get(key)
            if model is None or not model.may_start:
                line.wake()

    def expect(self, key: tuple[str, str]) -> None:
        """Check that a replica is to be expected.

        Raises:
            RetryLaterError: none is.
            UnknownModelError: the model was deleted.
        """
        model, label = self._models.get(key), "/".join(key)
        if model is None:
            raise UnknownModelError(
                f"The model {label!r} was deleted while the request waited for a replica.",
                param="model",
                code="model_not_found",
            )
        if not (model.may_start and self.limits.seconds):
            why = f", and will have none soon: {model.obstacle}" if model.obstacle else " now"
            raise not_ready(f"{label!r} has no ready replica{why}", _LOADING_SECONDS)

    @contextmanager
    def place(self, model: Model, size: int) -> Iterator["Place"]:
        """Give back what a request takes once it is with a replica, or over.

        `size`: bytes of its body. Nothing is taken before it has to wait.
        """
        place = Place(self, model, size)
        try:
            yield place
            if place.line is not None:
                seconds = self.clock() - place.began
                self.metrics.observe("mm_router_hold_seconds", "/".join(model.key), seconds)
        finally:
            if place.line is not None:
                self._leave(model.key, place, place.line, size)

    def enter(self, model: Model, place: "Place", size: int) -> _Line:
        """Take a place.

        Raises:
            RetryLaterError: a bound is met.
        """
        line = self._lines.get(model.key) or _Line(self.clock())
        if len(line.turns) >= self.limits.requests - self._requests:
            raise self.refusal(model, Bound.REQUESTS)
        if line.bytes + size > self.limits.bytes - self._bytes:
            raise self.refusal(model, Bound.BYTES)
        self._lines[model.key] = line
        line.turns[place] = None
        line.bytes += size
        self._requests += 1
        self._bytes += size
        return line

    def _leave(self, key: tuple[str, str], place: "Place", line: _Line, size: int) -> None:
        del line.turns[place]
        line.bytes -= size
        self._requests -= 1
        self._bytes -= size
        line.wake(1)  # where a replica was full, it may have a place for the next one
        if not line.turns:
            line.end()
            del self._lines[key]

    def refusal(self, model: Model, bound: Bound) -> RetryLaterError:
        """Return the error of a bound, with what is left of a start as it was measured."""
        label = "/".join(model.key)
        self.metrics.count("mm_router_hold_refused_total", label, bound)
        line = self._lines.get(model.key)
        waited = self.clock() - line.since if line else 0.0
        why = {
            Bound.REQUESTS: "as many requests wait for one as may",
            Bound.BYTES: "as many bytes of requests wait for one as may",
            Bound.SECONDS: f"this request has waited {self.limits.seconds:g} seconds for one",
        }[bound]
        left = math.ceil(model.start_seconds - waited)
        return not_ready(f"{label!r} has no ready replica now, and {why}", max(left, 1))


class Place:
    """One request that may have to wait; `line`: those that it waits with, once it has to."""

    def __init__(self, holds: Holds, model: Model, size: int) -> None:
        self._holds = holds
        self._model = model
        self._size = size
        self._spoke = 0.0
        self.began = 0.0
        self.line: _Line | None = None

    @property
    def seconds_left(self) -> float:
        return self.began + self._holds.limits.seconds - self._holds.clock()

    async def wait(self, comment: Comment | None, *, refused: bool) -> None:
        """Wait until replicas change; `refused`: there is one, which does not take the request now.

        `comment` is called now and then: a stream must not be silent for long.

        Raises:
            RetryLaterError: a bound is met, or no replica is to be expected.
            UnknownModelError: the model was deleted.
            ClientGoneError: the client has stopped reading.
        """
        holds = self._holds
        if self.line is None or not refused:
            holds.expect(self._model.key)
        if self.line is None:
            self.line = holds.enter(self._model, self, self._size)
            self.began = self._spoke = holds.clock()
        turn = self.line.turns[self] = asyncio.get_running_loop().create_future()
        if refused:
            self.line.retry_later()
        try:
            while not turn.done():
                if self.seconds_left <= 0:
                    raise holds.refusal(self._model, Bound.SECONDS)
                silent = self._spoke + _COMMENT_SECONDS - holds.clock()
                seconds = min(silent, self.seconds_left) if comment else self.seconds_left
                await asyncio.wait({turn}, timeout=seconds)
                if comment and not turn.done() and holds.clock() - self._spoke >= _COMMENT_SECONDS:
                    self._spoke = holds.clock()
                    await comment()
        finally:
            self.line.turns[self] = None


def not_ready(what: str, seconds: int) -> RetryLaterError:
    return RetryLaterError(
        f"The model {what}. Try again later.",
        retry_after_seconds=seconds,
        reason="no_replica",
        code="model_not_ready",
    )
