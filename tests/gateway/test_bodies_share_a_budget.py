"""Bodies that arrive at one time hold no more memory than their budget."""

import pytest
from starlette.types import Message

from mm_runtime.gateway.body import BodyBudget, read_body
from mm_runtime.gateway.errors import OverloadedError


def _receiver(*chunks: bytes):  # noqa: ANN202 - an ASGI receive
    messages = [
        {"type": "http.request", "body": chunk, "more_body": index < len(chunks) - 1}
        for index, chunk in enumerate(chunks)
    ]

    async def receive() -> Message:
        return messages.pop(0)

    return receive


async def test_a_body_holds_its_bytes_until_it_is_released() -> None:
    """The second body does not fit beside the first, and fits after it."""
    budget = BodyBudget(10)
    with budget.claim() as first:
        assert await read_body(_receiver(b"abc", b"def"), {}, first, limit=9, timeout_seconds=60)
        with pytest.raises(OverloadedError), budget.claim() as second:
            await read_body(_receiver(b"abc", b"de"), {}, second, limit=9, timeout_seconds=60)
        first.release()
        with budget.claim() as third:
            body = await read_body(
                _receiver(b"0123456789"), {}, third, limit=10, timeout_seconds=60
            )
    assert body == b"0123456789"


async def test_what_a_refused_body_took_is_given_back() -> None:
    """Also the part that had come before the budget was exceeded."""
    budget = BodyBudget(10)
    with pytest.raises(OverloadedError), budget.claim() as claim:
        await read_body(_receiver(b"12345678", b"9012"), {}, claim, limit=99, timeout_seconds=60)
    with budget.claim() as claim:
        claim.grow(10)
    with budget.claim() as claim:
        claim.grow(10)
        with pytest.raises(OverloadedError):
            claim.grow(1)
