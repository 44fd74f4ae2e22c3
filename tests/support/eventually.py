"""Waiting for something that has no event of its own; both forms raise when their time is up.

The deadline is for what never comes: a machine that is busy with other things may take long.
"""

import asyncio
import inspect
import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

NOT_YET = (AssertionError, LookupError, OSError, subprocess.TimeoutExpired)
"""Errors of a question that mean "not yet": kubectl failed, a field is missing, no one answers."""


def eventually(
    query: Callable[[], Answer],
    *,
    seconds: float = 90.0,
    pause_seconds: float = 0.2,
    showing: Callable[[], object] | None = None,
) -> Answer:
    """Query until the answer is true and return it; errors of `NOT_YET` count as no answer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer = query()
        except NOT_YET as error:
            last = f"{error!r}"
        else:
            if answer:
                return answer
            last = f"the last answer was {answer!r}"
        if time.monotonic() > deadline:
            raise _late(seconds, last if showing is None else f"{last}: {showing()}")
        time.sleep(pause_seconds)


async def eventually_async(
    query: Callable[[], object], *, seconds: float = 60.0, pause_seconds: float = 0.01
) -> None:
    """Query as `eventually` does, leaving the event loop to others; an answer may be awaitable."""
    last = "no answer came"
    try:
        async with asyncio.timeout(seconds) as limit:
            while True:
                try:
                    answer = query()
                    answer = await answer if inspect.isawaitable(answer) else answer
                except NOT_YET as error:
                    last = f"{error!r}"
                else:
                    if answer:
                        return
                    last = f"the last answer was {answer!r}"
                await asyncio.sleep(pause_seconds)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise _late(seconds, last) from error


def _late(seconds: float, last: str) -> AssertionError:
    return AssertionError(f"not within {seconds:g} s: {last[-2000:]}")
