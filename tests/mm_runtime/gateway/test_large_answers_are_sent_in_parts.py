"""Answers are sent in parts: a client that takes a large one slowly is not gone."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from mm_edge.body import ClientGoneError
from mm_edge.json_text import encode
from mm_runtime.gateway.api.completions import TextFrame
from mm_runtime.gateway.http import reply as module
from mm_runtime.gateway.http.reply import Reply
from support.turns import counted_turns

ANSWER = bytes(range(256)) * 4096
"""A mebibyte: scores of a prompt of some thousand tokens."""


class Client:
    """Takes each part so slowly that all of them together take longer than one may."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.parts: list[bytes] = []
        self.ended = 0

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(self._seconds)
            self.parts.append(message["body"])
            self.ended += not message["more_body"]


def replying(client: Client) -> Reply:
    return Reply(client.send, dict, lambda: None)


def test_a_slow_client_gets_all_of_it() -> None:
    client = Client(seconds=module._STALLED_SECONDS / 2)  # times 16

    async def send() -> None:
        with counted_turns():
            await replying(client).send_encoded(200, ANSWER)

    asyncio.run(send())
    assert b"".join(client.parts) == ANSWER
    assert max(map(len, client.parts)) <= 64 * 1024
    assert client.ended == 1


def test_a_pause_of_the_gateway_is_not_the_clients() -> None:
    """Each is an hour by the clock; the client reads on some turns of the loop after it."""
    client = Client(seconds=0)

    async def send() -> None:
        ahead, loop = 0, asyncio.get_running_loop()
        real = loop.time
        loop.time = lambda: real() + ahead  # type: ignore[method-assign]

        async def paused(message: MutableMapping[str, Any]) -> None:
            nonlocal ahead
            ahead += 3600
            for _ in range(3):
                await asyncio.sleep(0)
            await client.send(message)

        await Reply(paused, dict, lambda: None).send_encoded(200, ANSWER)

    asyncio.run(send())
    assert b"".join(client.parts) == ANSWER


async def test_comments_are_not_within_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is due while an event is sent comes after it."""
    monkeypatch.setattr(module, "_STALLED_SECONDS", 60)
    client = Client(seconds=0.01)
    reply = replying(client)
    async with reply.kept_alive(every_seconds=0.02):
        await reply.open_stream()
        await reply.send_events(ANSWER)
        await reply.end_stream()
    assert b"data: " + ANSWER + b"\n\n" in b"".join(client.parts)


async def test_who_takes_nothing_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STALLED_SECONDS", 0.05)
    with pytest.raises(ClientGoneError):
        await replying(Client(seconds=60)).send_encoded(200, ANSWER)


def _event(text: str) -> dict[str, object]:
    return {"id": "\0", "choices": [{"delta": {"content": text}, "text": None}], "usage": None}


@pytest.mark.parametrize(
    "text",
    [" red", 'a "quoted" \\ word', "two\nlines\u2028", "é 日本 😀", "\0", "\ud83d", '","x":"'],
    ids=["word", "quotes", "lines", "characters", "mark", "surrogate", "json"],
)
def test_a_frame_writes_what_the_complete_object_is(text: str) -> None:
    """Whatever the text, the bytes are those of the object, and they are read back as it."""
    written = TextFrame(_event).write(text)
    assert encode(_event(text)) == written
    assert _event(text) == json.loads(written)
