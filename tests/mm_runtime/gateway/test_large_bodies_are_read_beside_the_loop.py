"""Parsing a large body does not hold up other requests: it happens in a thread."""

import threading
from pathlib import Path

import httpx
import pytest

from mm_runtime.gateway import wiring
from mm_runtime.gateway.api.openai import ChatRequest
from mm_runtime.gateway.api.parsing import parse_chat
from support.gateways import MODEL, serve, toy_gateway
from support.scripted_engine import ScriptedEngine


@pytest.mark.parametrize(
    ("blanks", "beside"), [(0, False), (100_000, True)], ids=["small", "large"]
)
async def test_only_large_bodies_take_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blanks: int, *, beside: bool
) -> None:
    """A small one is parsed sooner than a thread begins."""
    parsed: list[bool] = []

    def noted(body: bytes, kind: str) -> ChatRequest:
        parsed.append(threading.current_thread() is not threading.main_thread())
        return parse_chat(body, kind)

    monkeypatch.setattr(wiring, "parse_chat", noted)
    question = f'{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "what ?"}}]'
    async with (
        serve(toy_gateway(tmp_path, ScriptedEngine())) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        content = question + " " * blanks + "}"
        answer = await client.post("/v1/chat/completions", content=content.encode())
    assert (answer.status_code, parsed) == (200, [beside])
