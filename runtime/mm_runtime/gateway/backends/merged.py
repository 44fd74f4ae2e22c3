"""Several asynchronous generators read as one, as their items come."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

_Item = TypeVar("_Item")

_AHEAD = 4
"""Items of each source that may wait; a client that reads slowly slows all of them."""


async def merged(
    sources: Sequence[AsyncGenerator[_Item, None]],
) -> AsyncGenerator[_Item, None]:
    """Yield the items of all sources; each source keeps its order.

    The first error of a source is raised here, and ends the others. So does closing this one.
    """
    came: asyncio.Queue[_Item | None] = asyncio.Queue(_AHEAD * len(sources))
    readers = [asyncio.create_task(_read(source, came)) for source in sources]
    try:
        left = len(readers)
        while left:
            item = await came.get()
            if item is not None:
                yield item
                continue
            left -= 1
            for reader in readers:
                if reader.done() and not reader.cancelled() and (error := reader.exception()):
                    raise error
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


async def _read(source: AsyncGenerator[_Item, None], came: "asyncio.Queue[_Item | None]") -> None:
    try:
        async with aclosing(source) as items:
            async for item in items:
                await came.put(item)
    finally:
        # Once `merged` ends it there is no reader, and the queue may be full.
        if not asyncio.current_task().cancelling():  # type: ignore[union-attr]
            await came.put(None)
