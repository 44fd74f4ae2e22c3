"""Whatever a body holds, its sender gets an answer or a refusal: never an error of ours."""

from pathlib import Path

import httpx
import pytest

from support.gateways import MODEL, serve, toy_gateway
from support.mutations import mutated
from support.scripted_engine import ScriptedEngine
from support.under_attack import Attacked, under_attack

SEED = 16
QUICK = 400
MANY = 10_000


async def _worst(url: str, model: str, count: int) -> tuple[int, bytes]:
    worst = (0, b"")
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        for body in mutated(model, SEED, count):
            answer = await client.post("/v1/chat/completions", content=body)
            worst = max(worst, (answer.status_code, body))
            if answer.status_code >= 400:
                assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    return worst


async def test_a_few_hundred_mutated_bodies_get_an_answer(tmp_path: Path) -> None:
    """Statuses below 500, each refusal with OpenAI's error object."""
    async with serve(toy_gateway(tmp_path, ScriptedEngine())) as running:
        status, body = await _worst(running.url, MODEL, QUICK)
    assert status < 500, body


@pytest.mark.adversarial
@pytest.mark.triton
@pytest.mark.timeout(1800)
async def test_thousands_of_mutated_bodies_disturb_no_other_client(attacked: Attacked) -> None:
    """The same, many more, before a real Triton; other users notice nothing."""
    async with under_attack(attacked, "mutated bodies") as watched:
        status, body = await _worst(attacked.url, attacked.model, MANY)
    assert status < 500, body
    watched.check()
