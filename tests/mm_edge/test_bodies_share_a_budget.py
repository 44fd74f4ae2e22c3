"""Bodies that arrive at one time hold no more memory than their budget."""

import asyncio
import itertools

import pytest
from starlette.types import Message

from mm_edge.body import UploadLimits, read_body
from mm_edge.body_budget import BodyBudget
from mm_edge.errors import BodyTimeoutError, OverloadedError
from support.turns import counted_turns

UPLOAD = UploadLimits(60)


def _receiver(*chunks: bytes):  # noqa: ANN202 - an ASGI receive
    messages = [
        {"type": "http.request", "body": chunk, "more_body": index < len(chunks) - 1}
        for index, chunk in enumerate(chunks)
    ]

    async def receive() -> Message:
        return messages.pop(0)

    return receive


async def test_a_body_holds_its_bytes_until_it_is_released() -> None:
    budget = BodyBudget(10)
    with budget.claim() as first:
        assert await read_body(_receiver(b"abc", b"def"), {}, first, limit=9, upload=UPLOAD)
        with pytest.raises(OverloadedError), budget.claim() as second:
            await read_body(_receiver(b"abc", b"de"), {}, second, limit=9, upload=UPLOAD)
        first.release()
        with budget.claim() as third:
            body = await read_body(_receiver(b"0123456789"), {}, third, limit=10, upload=UPLOAD)
    assert body == b"0123456789"


async def test_what_a_refused_body_took_is_given_back() -> None:
    budget = BodyBudget(10)
    with pytest.raises(OverloadedError), budget.claim() as claim:
        await read_body(_receiver(b"12345678", b"9012"), {}, claim, limit=99, upload=UPLOAD)
    with budget.claim() as claim:
        claim.grow(10)
    with budget.claim() as claim:
        claim.grow(10)
        with pytest.raises(OverloadedError):
            claim.grow(1)


async def test_large_bodies_leave_room_for_text() -> None:
    budget = BodyBudget(8 << 20)
    with budget.claim() as large, budget.claim() as small:
        large.grow(7 << 20)
        with pytest.raises(OverloadedError):
            large.grow(1)
        small.grow(1 << 20)


async def test_a_body_that_stands_still_is_given_up() -> None:
    """Its window brought too little: 408, and nothing of it is kept."""

    async def receive() -> Message:
        chunk = {"type": "http.request", "body": b"x", "more_body": True}
        return chunk if next(sent) < 3 else await asyncio.Future()

    sent = itertools.count()
    upload = UploadLimits(total_seconds=3600, window_seconds=0.05, window_bytes=1000)
    budget = BodyBudget(10)
    with (
        pytest.raises(BodyTimeoutError, match=r"at least 1000 bytes in 0\.05 s"),
        budget.claim() as claim,
    ):
        await read_body(receive, {}, claim, limit=99, upload=upload)
    with budget.claim() as claim:
        claim.grow(10)


async def test_a_body_that_comes_steadily_may_take_many_windows() -> None:
    async def receive() -> Message:
        await asyncio.sleep(0.7)
        return {"type": "http.request", "body": b"x" * 10, "more_body": next(left) > 0}

    left = iter(range(30, -1, -1))
    upload = UploadLimits(total_seconds=3600, window_seconds=1, window_bytes=10)
    with BodyBudget(10_000).claim() as claim, counted_turns():
        assert await read_body(receive, {}, claim, limit=9999, upload=upload)
