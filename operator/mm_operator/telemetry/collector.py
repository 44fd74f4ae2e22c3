"""Keeps what the caches hold out of Python's garbage collector: a full pass would hold the loop.

Of 1,000 models a full pass visits a million objects, which takes some 300 ms; the collector makes
one each time that a quarter was added. Modules and classes, which stay as long as the process, are
frozen first: of them alone a pass takes 75 ms, and it came while the first lists were read.
What is frozen is freed by its reference count as ever; only cycles among frozen objects stay, and
what the caches hold has none.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable

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
