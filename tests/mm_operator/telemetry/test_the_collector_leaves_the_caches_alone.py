"""What the caches hold is frozen as it grows: a full garbage collection need not visit it."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from mm_operator.telemetry.event_loop import freeze_growth
from support.cases import cases
from support.eventually import eventually_async


@pytest.fixture
def thresholds() -> Iterator[None]:
    former = gc.get_threshold()
    yield
    gc.set_threshold(*former)


async def frozen_at(sizes: list[int]) -> list[int]:
    """Return the sizes at which a look froze, one look a size; 0 for what was there before."""
    seen = [0]
    left = list(sizes)

    async def next_size(_seconds: float) -> None:
        seen.append(left.pop(0)) if left else await asyncio.Event().wait()

    froze: list[int] = []
    task = asyncio.create_task(
        freeze_growth(lambda: seen[-1], freeze=lambda: froze.append(seen[-1]), sleep=next_size)
    )
    for _ in range(10 * len(sizes)):
        await asyncio.sleep(0)
    task.cancel()
    assert not left
    return froze


@cases(
    "sizes frozen",
    {
        "few-objects-are-left-to-the-collector": ([10, 100, 110], [0]),
        "not-before-a-quarter-was-added": ([1000, 1200, 1250], [0, 1000]),
        "at-each-further-quarter": ([1000, 1251, 1300, 1600], [0, 1000, 1251, 1600]),
        "not-when-they-went-and-came-again": ([1000, 10, 1000], [0, 1000]),
    },
)
@pytest.mark.usefixtures("thresholds")
async def test_growth_is_frozen(sizes: list[int], frozen: list[int]) -> None:
    """Each quarter more is frozen once: freezing at every look would keep each cycle of then."""
    assert frozen == await frozen_at(sizes)


class Cyclic:
    """An object that holds itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("thresholds")
async def test_garbage_is_not_frozen() -> None:
    gone = weakref.ref(Cyclic())
    left: list[bool] = []
    task = asyncio.create_task(
        freeze_growth(
            lambda: 1000,
            freeze=lambda: left.append(gone() is None),
            sleep=lambda _: asyncio.sleep(0),
        )
    )
    await eventually_async(lambda: len(left) > 1)
    task.cancel()

    assert left[-1]
