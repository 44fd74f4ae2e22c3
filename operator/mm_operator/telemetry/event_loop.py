"""Looks how late the event loop is, and keeps what the caches hold out of the garbage collector.

Of 1,000 models a full pass visits a million objects, which takes some 300 ms; the collector makes
one each time that a quarter was added. Modules and classes, which stay as long as the process, are
frozen first: of them alone a pass takes 75 ms, and it came while the first lists were read.
What is frozen is freed by its reference count as ever; only cycles among frozen objects stay, and
what the caches hold has none.
"""

import asyncio
import gc
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


_LOOK_SECONDS = 2.0
_GROWTH = 1.25
"""As the collector's own rule for a full pass (`long_lived_pending` in CPython's gcmodule)."""
_YOUNG = 5000
"""Net allocations between two passes over young objects, 700 by default: a list's page has more."""


async def freeze_growth(
    held: Callable[[], int],
    *,
    freeze: Callable[[], None] = gc.freeze,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Freeze what is alive now, and each time that a quarter more is held, until cancelled.

    Freezing at each look would keep every cycle that was alive then: connections, tasks.
    """
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    freeze()
    frozen = 100
    while True:
        await sleep(_LOOK_SECONDS)
        if held() > frozen * _GROWTH:
            gc.collect(1)  # what is garbage already is not to be kept
            freeze()
            frozen = held()
