"""Attacks on HTTP at ten times the sizes of the security review, before a real Triton.

Of each: no status of 5xx but 503 for want of connections, other users are answered about as soon as
before, memory stays below the container's limit, and everything is free ten seconds later.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import repeat

import pytest

from support.flood import Attack, abandoned, dripped, flood, said, unread
from support.name_server import SILENT
from support.under_attack import Attacked, under_attack

pytestmark = [pytest.mark.adversarial, pytest.mark.triton, pytest.mark.timeout(900)]

POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
MEGABYTE = 1 << 20


def _sized(body: bytes) -> bytes:
    return POST + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body


def _message(model: str, content: object) -> bytes:
    question = {"model": model, "messages": [{"role": "user", "content": content}]}
    return json.dumps({**question, "max_tokens": 64, "stream": True}).encode()


def _json_bombs(at: Attacked) -> Iterable[Attack]:
    """Six megabytes took 3.6 GiB; these are the largest that are read, and ten times the six."""
    head = b'{"model":"x","messages":[{"role":"user","content":['
    for size in (6, 27, 60):
        empty = _sized(head + b"{}," * (size * MEGABYTE // 3) + b"{}]}]}")
        keys = b"".join(b'"%d":1,' % number for number in range(size * MEGABYTE // 9))
        yield from repeat(said(at.port, empty), 4)
        yield from repeat(said(at.port, _sized(b"{" + keys + b'"model":"x"}')), 4)
        yield from repeat(said(at.port, _sized(b"[" * size * MEGABYTE)), 4)
    yield from repeat(said(at.port, _sized(_message(at.model, "," * MEGABYTE))), 20)


def _slow_heads(at: Attacked) -> Iterable[Attack]:
    return repeat(dripped(at.port, POST, b"a: b\r\n", seconds=30, pause=2), 4000)


def _silent_connections(at: Attacked) -> Iterable[Attack]:
    return repeat(said(at.port, seconds=5), 5000)


def _slow_bodies(at: Attacked) -> Iterable[Attack]:
    head = POST + b"content-length: 20000000\r\n\r\n"
    return repeat(dripped(at.port, head, b"x", seconds=30, pause=2), 720)


def _endless_bodies(at: Attacked) -> Iterable[Attack]:
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    return repeat(dripped(at.port, POST + CHUNKED + b"\r\n", chunk, seconds=60, pause=0.01), 64)


def _header_floods(at: Attacked) -> Iterable[Attack]:
    yield from repeat(said(at.port, POST + b"a: b\r\n" * 200_000 + b"\r\n"), 100)
    yield from repeat(said(at.port, POST + b"a: " + b"x" * 10 * MEGABYTE), 100)
    yield from repeat(said(at.port, POST + b"a: b\r\n" * 101 + b"\r\n"), 1000)


def _smuggling(at: Attacked) -> Iterable[Attack]:
    inner = b"0\r\n\r\nGET /metrics HTTP/1.1\r\nhost: x\r\n\r\n"
    framed = POST + CHUNKED + b"content-length: %d\r\n\r\n" % len(inner) + inner
    return repeat(said(at.port, framed), 1000)


def _huge_urls(at: Attacked) -> Iterable[Attack]:
    return repeat(said(at.port, b"GET /" + b"x" * 10 * MEGABYTE + b" HTTP/1.1\r\n\r\n"), 100)


def _tiny_chunks(at: Attacked) -> Iterable[Attack]:
    return repeat(said(at.port, POST + CHUNKED + b"\r\n" + b"1\r\n \r\n" * MEGABYTE), 50)


def _names_without_address(at: Attacked) -> Iterable[Attack]:
    for number in range(80):
        url = f"http://a{number}.no-such-zone-{number}.example/x.png"
        yield said(at.port, _sized(_message(at.model, [_image(url)])))


def _names_that_hang(at: Attacked) -> Iterable[Attack]:
    """Eight stopped every fetch; here are ten times as many at any time, and each is another."""
    for number in range(800):
        yield said(at.port, _sized(_message(at.model, [_image(f"http://a{number}.{SILENT}/x")])))


def _image(url: str) -> object:
    return {"type": "image_url", "image_url": {"url": url}}


def _unread_answers(at: Attacked) -> Iterable[Attack]:
    """A page of 100 kB and more for each request: after some of them the server waits."""
    get = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n"
    return repeat(unread(at.port, get, seconds=300), 200)


def _cancel_storm(at: Attacked) -> Iterable[Attack]:
    chance = random.Random(16)  # noqa: S311 - moments, no secrets
    request = _sized(_message(at.model, "Hello!"))
    return (abandoned(at.port, request, chance) for _ in range(2000))


ATTACKS: dict[str, tuple[Callable[[Attacked], Iterable[Attack]], int, set[int]]] = {
    "json-bombs": (_json_bombs, 12, {0, 400, 413, 429}),
    "slow-heads": (_slow_heads, 2000, {0, 408, 503}),
    "silent-connections": (_silent_connections, 2500, {0, 503}),
    "slow-bodies": (_slow_bodies, 720, {0, 408}),
    "endless-bodies": (_endless_bodies, 32, {0, 413, 429}),
    "header-floods": (_header_floods, 20, {0, 431}),
    "smuggling": (_smuggling, 50, {400}),
    "huge-urls": (_huge_urls, 20, {0, 414}),
    "tiny-chunks": (_tiny_chunks, 10, {0, 400}),
    "names-without-address": (_names_without_address, 16, {400}),
    "names-that-hang": (_names_that_hang, 80, {400, 429}),
    "unread-answers": (_unread_answers, 100, {0}),
    "cancel-storm": (_cancel_storm, 8, {0, 200}),
}
"""Attack -> how it is made, how many at one time, and what it may be answered; 0: closed."""


@pytest.mark.parametrize("name", ATTACKS)
async def test_others_are_answered(attacked: Attacked, name: str) -> None:
    attack, at_once, expected = ATTACKS[name]
    answered: Counter[int] = Counter()
    async with under_attack(attacked, name) as watched:
        answered = await flood(attack(attacked), at_once=at_once)
    print(dict(answered))  # noqa: T201 - beside the report of what it cost
    if name == "names-that-hang":
        assert attacked.names is None or attacked.names.requested
    assert set(answered) <= expected, answered
    watched.check()
