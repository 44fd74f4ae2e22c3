"""The work queue: each key once, none twice at a time, retried with growing delays."""

import asyncio

import pytest

from mm_operator.control.queue import WorkQueue


def queue(**options: float) -> WorkQueue[str]:
    return WorkQueue(chance=lambda: 0.0, **options)


async def test_adding_twice_is_adding_once() -> None:
    waiting = queue()
    for key in ("a", "b", "a"):
        waiting.add(key)

    assert [await waiting.get(), await waiting.get()] == ["a", "b"]
    assert waiting.depth == 0


async def test_a_key_is_never_worked_on_twice_at_a_time() -> None:
    waiting = queue()
    waiting.add("a")
    key = await waiting.get()
    waiting.add("a")

    assert waiting.depth == 0
    waiting.done(key)
    assert await asyncio.wait_for(waiting.get(), 60) == "a"


async def test_the_earlier_of_two_delays_counts() -> None:
    waiting = queue()
    waiting.add_after("a", 0.01)
    waiting.add_after("a", 60)

    assert await asyncio.wait_for(waiting.get(), 60) == "a"


async def test_now_beats_later() -> None:
    waiting = queue()
    waiting.add_after("a", 0.01)
    waiting.add("a")
    waiting.done(await waiting.get())
    await asyncio.sleep(0.05)

    assert waiting.depth == 0


async def test_retries_back_off_and_reset() -> None:
    waiting = queue(first_retry_seconds=1.0, longest_retry_seconds=5.0)

    assert [waiting.retry("a") for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    waiting.forget("a")
    assert waiting.retry("a") == pytest.approx(1.0)
    waiting.clear()


async def test_clearing_drops_everything() -> None:
    waiting = queue()
    waiting.add("a")
    waiting.add_after("b", 0.01)

    waiting.clear()
    await asyncio.sleep(0.05)

    assert waiting.depth == 0


async def test_a_users_change_goes_before_what_follows_from_others() -> None:
    """Of eight rounds seven go to keys with priority while any waits, in the order of each kind."""
    waiting = queue()
    for key in "ab":
        waiting.add(key)
    for key in "pqrstuvw":
        waiting.add(key, priority=True)

    assert waiting.depth == 10
    assert "".join([await waiting.get() for _ in range(10)]) == "pqrstuvawb"


async def test_a_key_that_waits_gains_priority_and_keeps_it() -> None:
    waiting = queue()
    waiting.add("a")
    waiting.add("b")
    waiting.add("b", priority=True)
    waiting.add("b")

    assert [await waiting.get(), await waiting.get()] == ["b", "a"]
    assert waiting.depth == 0


async def test_priority_outlasts_the_round_that_is_under_way() -> None:
    waiting = queue()
    waiting.add("a")
    key = await waiting.get()
    waiting.add("b")
    waiting.add("a", priority=True)
    waiting.done(key)

    assert [await waiting.get(), await waiting.get()] == ["a", "b"]
