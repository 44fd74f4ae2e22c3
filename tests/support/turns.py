"""A clock for event loops that no pause of the machine moves: each turn of the loop takes 10 ms.

For time-outs of code whose peers are coroutines of the same loop: what comes first is decided by
what they do, and an hour passes while nothing happens in it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

TURN_SECONDS = 0.01


@contextmanager
def counted_turns() -> Iterator[None]:
    """Let the running loop count its turns while the block runs; not for uvloop."""
    loop = asyncio.get_running_loop()
    real, now, counting = loop.time, loop.time(), True

    def tick() -> None:
        nonlocal now
        now += TURN_SECONDS
        if counting:
            loop.call_soon(tick)

    loop.time = lambda: now  # type: ignore[method-assign]
    tick()
    try:
        yield
    finally:
        counting, ahead = False, now - real()
        loop.time = lambda: real() + ahead  # type: ignore[method-assign]
