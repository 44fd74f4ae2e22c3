"""Requests that wait for a model without a ready replica: bounded by number, bytes and time.

A request is held only where a replica is to be expected, and only while it cannot have run. No
model holds more than is left free to others, so one that does not start keeps no other out.
"""

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from mm_api.documents.router_state import RouterState
from mm_edge.errors import RetryLaterError
from mm_router.catalog import Model
from mm_router.metrics import RouterMetrics

_LOADING_SECONDS = 5
"""Until the next attempt where no start was measured: one that loads takes longer."""

_LOOK_SECONDS = 1.0
"""Between two attempts while replicas are the same: one that refused may be ready again."""

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
    requests: int = 0
    bytes: int = 0
    turns: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    """By the number of the request: they are woken in the order in which they came."""


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
        self.numbers = itertools.count()
        self._lines: dict[tuple[str, str], _Line] = {}

    def held(self) -> Mapping[tuple[str, str], int]:
        """Return how many requests wait, by namespace and name of the model."""
        return {key: line.requests for key, line in self._lines.items()}

    def state(self, namespaces: Iterable[str]) -> bytes:
        """Return what the operator reads, which wakes models; `namespaces`: those routed to."""
        held = {"/".join(key): count for key, count in self.held().items()}
        return RouterState(namespaces=list(namespaces), held=held).to_json().encode()

    def wake(self, model: tuple[str, str]) -> None:
        """Let the requests of a model try again: its replicas have changed."""
        if line := self._lines.get(model):
            for _, turn in sorted(line.turns.items()):
                if not turn.done():
                    turn.set_result(None)

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
                place.line.requests -= 1
                place.line.bytes -= size
                if not place.line.requests:
                    del self._lines[model.key]

    def enter(self, model: Model, size: int) -> _Line:
        """Take a place.

        Raises:
            RetryLaterError: a bound is met.
        """
        line = self._lines.get(model.key) or _Line(self.clock())
        lines, limits = self._lines.values(), self.limits
        if line.requests >= limits.requests - sum(one.requests for one in lines):
            raise self.refusal(model, Bound.REQUESTS)
        if line.bytes + size > limits.bytes - sum(one.bytes for one in lines):
            raise self.refusal(model, Bound.BYTES)
        self._lines[model.key] = line
        line.requests += 1
        line.bytes += size
        return line

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
        self._number = next(holds.numbers)
        self._spoke = 0.0
        self.began = 0.0
        self.line: _Line | None = None

    @property
    def seconds_left(self) -> float:
        return self.began + self._holds.limits.seconds - self._holds.clock()

    async def wait(self, comment: Comment | None) -> None:
        """Wait until replicas change, or for a moment.

        `comment` is called now and then: a stream must not be silent for long.

        Raises:
            RetryLaterError: a bound is met, or no replica is to be expected.
            ClientGoneError: the client has stopped reading.
        """
        holds = self._holds
        if self.line is None:
            if not (self._model.may_start and holds.limits.seconds):
                label = "/".join(self._model.key)
                raise not_ready(f"{label!r} has no ready replica now", _LOADING_SECONDS)
            self.line = holds.enter(self._model, self._size)
            self.began = self._spoke = holds.clock()
        if self.seconds_left <= 0:
            raise holds.refusal(self._model, Bound.SECONDS)
        turn = self.line.turns[self._number] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait({turn}, timeout=min(_LOOK_SECONDS, self.seconds_left))
        finally:
            del self.line.turns[self._number]
        if comment and not turn.done() and holds.clock() - self._spoke >= _COMMENT_SECONDS:
            self._spoke = holds.clock()
            await comment()


def not_ready(what: str, seconds: int) -> RetryLaterError:
    """Return the error of a model that is not ready."""
    return RetryLaterError(
        f"The model {what}. Try again later.",
        retry_after_seconds=seconds,
        reason="no_replica",
        code="model_not_ready",
    )
