"""Files that cost a decoder gigabytes or minutes are refused, and no one else notices."""

import asyncio

import httpx
import pytest

from mm_runtime.images.structure import MAX_SCANS
from support import bombs
from support.gateways import serve, toy_gateway
from support.images import data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine
from support.under_attack import Attacked, under_attack

ROUNDS = 20
ATTACKERS = 4
MIB = 1 << 20

BOMBS = {
    # Ten times what the security review sent: 1 MB of Exif, 267 kB of scans, 64 frames.
    "exif": lambda: bombs.with_exif("PNG", bombs.exif_of(2_000, 10 * MIB)),
    "scans": lambda: bombs.scans(40 * MAX_SCANS, side=2_000),
    "frames": lambda: bombs.animated_webp(640, 7_000),
    "chunks": lambda: bombs.chunked_png(1_000_000),
    "comments": lambda: bombs.commented_gif(50_000),
    "canvas": lambda: bombs.animated_webp(1, 16_000),
    "padding": lambda: b"\xff\xd8\xff" + b"\xff" * (12 * MIB) + bytes(16),
}


def _body(model: str, bomb: bytes) -> dict[str, object]:
    image = {"type": "image_url", "image_url": {"url": data_url(bomb)}}
    content = [{"type": "text", "text": "What is it?"}, image]
    return {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 1}


async def _attack(url: str, model: str, bomb: bytes, rounds: int) -> set[int]:
    """Return the statuses that attackers get who send a file again and again, side by side."""
    found: set[int] = set()
    body = _body(model, bomb)

    async def attacker(client: httpx.AsyncClient) -> None:
        for _ in range(rounds):
            answer = await client.post("/v1/chat/completions", json=body)
            found.add(answer.status_code)
            if answer.status_code >= 400:
                assert set(answer.json()["error"]) == {"message", "type", "param", "code"}

    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        await asyncio.gather(*(attacker(client) for _ in range(ATTACKERS)))
    return found


@pytest.mark.parametrize("kind", ["scans", "chunks", "canvas"])
async def test_a_bomb_is_the_clients_fault(
    tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    """Status 400 for the bomb; an image right behind it is answered."""
    gateway = toy_gateway(
        tmp_path_factory.mktemp("gateway"),
        ScriptedEngine(),
        max_image_bytes=20 * MIB,
        max_queue_size=8,
    )
    async with serve(gateway) as running:
        assert await _attack(running.url, "toy", BOMBS[kind](), 1) == {400}
        assert await _attack(running.url, "toy", encode(plain_image()), 1) == {200}


@pytest.mark.adversarial
@pytest.mark.triton
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", BOMBS)
async def test_bombs_disturb_no_other_client(attacked: Attacked, kind: str) -> None:
    """At ten times the sizes that were measured before: refused or answered, and all is free."""
    bomb = BOMBS[kind]()
    async with under_attack(attacked, f"media: {kind}") as watched:
        statuses = await _attack(attacked.url, attacked.model, bomb, ROUNDS)
    assert statuses <= {200, 400, 429}, statuses
    watched.check()
