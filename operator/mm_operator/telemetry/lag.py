"""How late the event loop runs what is due: while one coroutine computes, every other one waits."""

import asyncio
import time
from collections.abc import Awaitable, Callable

INTERVAL_SECONDS = 0.025
"""Half of the 50 ms that nothing may hold the loop for: a longer stall meets a look that is due in
its first half. 40 looks a second take 0.2 % of a core."""


async def watch_loop(
    observe: Callable[[float], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Report, until cancelled, by how many seconds each look came later than it was due.

    A stall of five seconds is one lag of five seconds, not two hundred looks that were missed.
    """
    while True:
        due = clock() + INTERVAL_SECONDS
        await sleep(INTERVAL_SECONDS)
        observe(max(0.0, clock() - due))  # timers may fire a clock's tick early
