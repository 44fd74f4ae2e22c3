"""A prompt that takes long to write, or a text to search, holds up no other request."""

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from mm_runtime.base.chat_template import PromptTemplate
from mm_runtime.gateway.prompts.conversation import control_pattern
from support.cases import cases
from support.gateways import MODEL, client_of, toy_gateway
from support.model_configs import planned
from support.scripted_engine import ScriptedEngine

DEADLINE = 60.0
SERVED = planned("qwen2-vl", {"backend": "PyTorch"}, version="1.2.1").serve
SLOW = (
    "{% for one in messages %}{{ one.content }}{% if one.content == 'slow ?' %}"
    "{% for at in range(999) %}{% endfor %}{% endif %}{% endfor %}"
)
BACKENDS = {"Reference": {}, "PyTorch": {"trtllm_serve": SERVED}}


@cases("fields", BACKENDS)
async def test_another_request_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    """While the template of the first one still works."""
    begun, released = threading.Event(), threading.Event()
    render = PromptTemplate.render

    def held(self: PromptTemplate, turns: Any, *given: Any, **named: Any) -> str:
        written = render(self, turns, *given, **named)
        if turns[-1].parts == ("slow ?",):
            begun.set()
            assert released.wait(DEADLINE)
        return written

    gateway = toy_gateway(tmp_path, ScriptedEngine(), template=SLOW, **fields)
    async with client_of(gateway) as client:

        async def sent(text: str) -> int:
            messages = [{"role": "user", "content": text}]
            body = {"model": MODEL, "messages": messages}
            return (await client.post("/v1/chat/completions", json=body)).status_code

        monkeypatch.setattr(PromptTemplate, "render", held)
        slow = asyncio.create_task(sent("slow ?"))
        assert await asyncio.to_thread(begun.wait, DEADLINE)
        assert (await sent("what ?"), slow.done()) == (200, False)
        released.set()
        assert await slow == 200


@cases("fields", BACKENDS)
async def test_an_endless_template_is_refused(tmp_path: Path, fields: dict[str, Any]) -> None:
    """By one bound, with the file; no server is sent it."""
    loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    engine = ScriptedEngine()
    gateway = toy_gateway(tmp_path, engine, template=loop, **fields)
    body = {"model": MODEL, "messages": [{"role": "user", "content": "what ?"}]}
    async with client_of(gateway) as client:
        answer = await client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 400
        assert "(chat_template.jinja) would make too much" in answer.text
    assert not engine.requests


@cases(
    "text found",
    {
        "the-longest": ("a <|end|>> b", "<|end|>>"),
        "the-first": ("a <|end|> <s>", "<|end|>"),
        "begun-only": ("<|en <|", None),
        "behind-a-beginning": ("<|<|end|", "<|end|"),
    },
)
def test_control_tokens_are_found(text: str, found: str | None) -> None:
    """As one after the other finds them, longest first; what they share is read once."""
    tokens = ["<|end|", "<|end|>", "<|end|>>", "<s>", "(.*)"]
    pattern = control_pattern(tokens)
    assert pattern is not None
    each = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))))
    for one in (pattern, each):
        match = one.search(text)
        assert (match and match[0]) == found
    assert pattern.pattern.count("<") == 1


async def test_long_texts_are_searched_in_pieces(tmp_path: Path) -> None:
    """A control token that lies in two of them is found."""
    text = "x" * ((1 << 19) - 2) + "</s>"
    async with client_of(toy_gateway(tmp_path, ScriptedEngine())) as client:
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
        answer = await client.post("/v1/chat/completions", json=body)
    assert answer.json()["error"]["code"] == "control_token"
