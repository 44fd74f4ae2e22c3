"""Parsing a large body does not hold up other requests: it happens in a thread."""

import json
import threading
from pathlib import Path

import pytest

from mm_runtime.gateway import wiring
from mm_runtime.gateway.api.openai import ChatRequest
from mm_runtime.gateway.api.parsing import parse_chat
from support.gateways import MODEL, client_of, toy_gateway
from support.scripted_engine import ScriptedEngine

QUESTION = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "what ?"}]})


BODIES = {
    "small": (QUESTION, False),
    "large": (QUESTION + " " * 100_000, True),
}
"""Each with whether it is parsed beside the loop."""


@pytest.mark.parametrize("body", BODIES)
async def test_only_large_bodies_take_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """A small one is parsed sooner than a thread begins."""
    content, beside = BODIES[body]
    parsed: list[bool] = []

    def noted(body: bytes, kind: str) -> ChatRequest:
        parsed.append(threading.current_thread() is not threading.main_thread())
        return parse_chat(body, kind)

    monkeypatch.setattr(wiring, "parse_chat", noted)
    gateway = toy_gateway(tmp_path, ScriptedEngine(), max_image_bytes=2_000_000)
    async with client_of(gateway) as client:
        answer = await client.post("/v1/chat/completions", content=content.encode())
    assert (answer.status_code, parsed) == (200, [beside])
