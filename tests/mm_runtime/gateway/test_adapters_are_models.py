"""LoRA adapters at the gateway: models with a parent, requested by name."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.cases import cases
from support.gateways import MODEL, client_of, toy_gateway
from support.scripted_engine import ScriptedEngine

ADAPTERS = ("french", MODEL)
"""The second one is called as its base model."""


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
async def client(tmp_path: Path, engine: ScriptedEngine) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(toy_gateway(tmp_path, engine, adapters=ADAPTERS)) as client:
        yield client


async def _query(client: httpx.AsyncClient, model: str) -> tuple[int, dict[str, Any]]:
    body = {"model": model, "messages": [{"role": "user", "content": "what is it ?"}]}
    answer = await client.post("/v1/chat/completions", json=body)
    return answer.status_code, answer.json()


@cases(
    "model adapter",
    {
        "base": (MODEL, None),
        "name": ("french", 0),
        "base-and-name": (f"{MODEL}:french", 0),
        "same-name": (f"{MODEL}:{MODEL}", 1),
    },
)
async def test_a_name_chooses_the_adapter(
    client: httpx.AsyncClient, engine: ScriptedEngine, model: str, adapter: int | None
) -> None:
    """The engine gets the adapter's id, the client the name that it requested."""
    status, answer = await _query(client, model)
    requested = [request.adapter for request in engine.requests]
    assert (200, model, [adapter]) == (status, answer["model"], requested)


async def test_unknown_adapters_are_refused(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    for name in ("german", f"{MODEL}:german", "other:french", f"{MODEL}:"):
        status, answer = await _query(client, name)
        assert (status, answer["error"]["code"]) == (404, "model_not_found")
        assert f"serves '{MODEL}', 'french', '{MODEL}:{MODEL}'." in answer["error"]["message"]
    assert engine.requests == []


async def test_adapters_are_listed_with_their_parent(client: httpx.AsyncClient) -> None:
    """As other servers of open models list them; each can be looked up by its id."""
    listed = (await client.get("/v1/models")).json()["data"]
    expected = [(MODEL, None), ("french", MODEL), (f"{MODEL}:{MODEL}", MODEL)]
    assert expected == [(one["id"], one.get("parent")) for one in listed]
    for one in listed:
        assert one == (await client.get(f"/v1/models/{one['id']}")).json()
