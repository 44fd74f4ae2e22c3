"""From what users of a closed loop saw to the service times of a simulated replica. Pure.

A replica that takes every millisecond of a user's wait for work of its engine is full too early:
gateway and server spend theirs side by side. Which is which shows only when users are added. So the
same loops are lived through by the simulated replica, and its times are those that explain all of
them best.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from mm_lab.simulation import Request, ServiceProfile
from mm_lab.simulation.meters import Meters
from mm_lab.simulation.replica import Replica
from mm_lab.simulation.score import Targets

TIMES = (
    "prompt_seconds",
    "image_token_seconds",
    "text_token_seconds",
    "step_seconds",
    "step_seconds_per_request",
    "beside_seconds",
)
"""Of the profile, found by the fit."""
LEAST_SECONDS = 1e-7
"""A time this short is none: what is left for it cannot be distinguished from noise."""
_FIRST_STEP = 0.8
"""Times are searched by factors: e to this power, then half of it, and so on."""
_LAST_STEP = 0.01


class FitError(ValueError):
    """The measurements cannot be explained."""


@dataclass(frozen=True)
class Loop:
    """What a closed loop of so many users saw."""

    users: int
    contents: tuple[tuple[int, int, int], ...]
    """Image, text and output tokens of its requests, in order."""
    requests_per_second: float
    first_token_seconds: float
    """Median, as of the entire requests."""
    complete_seconds: float

    @property
    def seen(self) -> tuple[float, float, float]:
        """Return what a fit compares."""
        return self.requests_per_second, self.first_token_seconds, self.complete_seconds


def above_zero(what: str, seconds: float) -> float:
    """Return a fitted time.

    Raises:
        FitError: it is none.
    """
    if seconds > 0:
        return seconds
    raise FitError(
        f"{what} comes out at {1000 * seconds:.3g} ms, and no work takes that: the medians were "
        "measured beside other work; run it again on a quiet machine, or with more rounds"
    )


def lived(
    profile: ServiceProfile, contents: Sequence[tuple[int, int, int]], users: int
) -> tuple[float, float, float]:
    """Return what a simulated replica shows the users of a closed loop: the numbers of `Loop`."""
    loop = _Users(contents, users)
    replica = Replica(profile, 0.0)
    loop.send = replica.send
    replica.send(islice(loop.questions, users))
    replica.advance(math.inf, loop)
    ends = loop.ends
    return (
        len(ends) / max(end for _, end, _ in ends),
        statistics.median(first - at for at, _, first in ends),
        statistics.median(end - at for at, end, _ in ends),
    )


class _Users(Meters):
    """Users who query again as soon as they are answered, until everything is queried."""

    def __init__(self, contents: Sequence[tuple[int, int, int]], users: int) -> None:
        super().__init__(Targets(math.inf, math.inf))
        self._contents = iter(contents)
        self._now = 0.0
        self.ends: list[tuple[float, float, float]] = []
        """When a request was sent, ended, and got its first token."""
        self.send: Callable[[Iterable[Request]], None] = lambda _requests: None
        self.questions = self._questions()
        assert users <= len(contents)

    def _questions(self) -> Iterator[Request]:
        for content in self._contents:
            yield Request(self._now, *content)

    def finished(self, request: Request, first: float, at: float) -> None:
        """Note the end of an answer, and query the next question."""
        super().finished(request, first, at)
        self.ends.append((request.at, at, first))
        self._now = at
        self.send(islice(self.questions, 1))


def fitted(
    loops: Sequence[Loop], *, name: str, slots: int, queue_size: int
) -> tuple[ServiceProfile, float]:
    """Return the profile that explains the loops best, and the mean factor that it is off by.

    Times are searched by their logarithm, so none can come out below zero.

    Raises:
        FitError: nothing was measured.
    """
    if not loops:
        raise FitError("no closed loop was answered: there is nothing to fit a profile to")

    def profile_of(times: Sequence[float]) -> ServiceProfile:
        found = dict(zip(TIMES, map(math.exp, times), strict=True))
        return ServiceProfile(
            name=name, slots=slots, queue_size=queue_size, cold_start_seconds=0.0, **found
        )

    def off(times: Sequence[float]) -> float:
        if min(times) < math.log(LEAST_SECONDS):
            return math.inf
        profile = profile_of(times)
        return statistics.fmean(
            math.log(simulated / seen) ** 2
            for loop in loops
            for simulated, seen in zip(
                lived(profile, loop.contents, loop.users), loop.seen, strict=True
            )
        )

    alone = min(loops, key=lambda loop: loop.users)
    prompt = alone.first_token_seconds / 2
    gap = max(alone.complete_seconds - alone.first_token_seconds, prompt / 10)
    token = gap / max(1.0, statistics.fmean(output for _, _, output in alone.contents))
    guess = [prompt, prompt / 100, prompt / 100, token / 2, token / 2, prompt]
    best = _searched(off, [math.log(seconds) for seconds in guess])
    return profile_of(best), math.exp(math.sqrt(off(best)))


def unseen(profile: ServiceProfile) -> list[str]:
    """Return which times of a fit are too short to stand out from noise, one sentence each."""
    times: Mapping[str, float] = {name: getattr(profile, name) for name in TIMES}
    return [
        f"{name} comes out at {seconds:.1e} s: too short to be distinguished from noise here"
        for name, seconds in times.items()
        if seconds < 10 * LEAST_SECONDS
    ]


def _searched(off: Callable[[Sequence[float]], float], start: list[float]) -> list[float]:
    """Return where `off` is least: steps along each axis, and on in a direction that helped."""
    best, least, step = start, off(start), _FIRST_STEP
    while step > _LAST_STEP:
        here, lower = _stepped(off, best, least, step)
        if lower >= least:
            step /= 2
            continue
        # As far again: times that make up for each other lie along a slanting valley.
        ahead = [2 * new - old for new, old in zip(here, best, strict=True)]
        best, least = here, lower
        here, lower = _stepped(off, ahead, off(ahead), step)
        if lower < least:
            best, least = here, lower
    return best


def _stepped(
    off: Callable[[Sequence[float]], float], start: list[float], least: float, step: float
) -> tuple[list[float], float]:
    best = list(start)
    for axis in range(len(best)):
        for change in (step, -step):
            tried = [*best]
            tried[axis] += change
            if (found := off(tried)) < least:
                best, least = tried, found
                break
    return best, least
