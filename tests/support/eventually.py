"""Waiting for something that has no event of its own, with a deadline.

The deadline is for what never comes: a machine that is busy with other things may take long.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], *, seconds: float = 60, pause: float = 0.01
) -> None:
    """Return once a condition holds.

    Raises:
        TimeoutError: it did not hold within `seconds`.
    """
    async with asyncio.timeout(seconds):
        while True:
            holds = condition()
            if await holds if inspect.isawaitable(holds) else holds:
                return
            await asyncio.sleep(pause)
