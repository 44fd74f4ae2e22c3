"""Requests that were changed at random get an answer or a refusal that names the part: no 5xx."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_runtime.gateway.api.parameters import PARAMETERS, endpoints_of
from support import tool_templates
from support.eventually import eventually_async
from support.gateways import MODEL, TEMPLATE, serve, toy_gateway
from support.images import data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine

CHAT = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": "be short"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what is it ?"},
                {"type": "image_url", "image_url": {"url": data_url(encode(plain_image()))}},
            ],
        },
        {"role": "assistant", "content": None},
        {"role": "tool", "tool_call_id": "1", "content": "red"},
    ],
    "max_tokens": 8,
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 3,
    "min_p": 0.1,
    "seed": 7,
    "stop": ["red", "blue"],
    "stop_token_ids": [1, 2],
    "logit_bias": {"1": 5, "2": -5},
    "n": 2,
    "logprobs": True,
    "top_logprobs": 2,
    "repetition_penalty": 1.1,
    "ignore_eos": False,
    "structured_outputs": None,
    "chat_template_kwargs": {"thinking": False, "x": ["a", {"b": 1}]},
    "add_generation_prompt": True,
    "continue_final_message": False,
    "skip_special_tokens": True,
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": {"type": "object"}, "strict": True},
    },
    "tools": [],
    "tool_choice": "none",
    "parallel_tool_calls": True,
    "metadata": {"a": "b"},
}
TOOLS = {
    "model": MODEL,
    "messages": [
        {"role": "user", "content": "rain ?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": "rain", "arguments": '{"city": "Ulm"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "1", "name": "rain", "content": "no"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "rain",
                "description": "says it",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
                "strict": True,
            },
        }
    ],
    "tool_choice": {"type": "function", "function": {"name": "rain"}},
    "parallel_tool_calls": False,
    "stream": True,
}
TEXT = {
    "model": MODEL,
    "prompt": ["<s>what is it ?", "rain ?"],
    "max_tokens": 8,
    "n": 2,
    "best_of": 3,
    "logprobs": 2,
    "logit_bias": {"1": 5},
    "structured_outputs": {"choice": ["a", "b"]},
    "echo": False,
}
OTHERS = {
    "/tokenize": {"model": MODEL, "prompt": "what is it ?", "return_token_strs": True},
    "/detokenize": {"model": MODEL, "tokens": [1, 2, 3]},
}
BODIES = {"/v1/chat/completions": CHAT, "/v1/completions": TEXT, **OTHERS}
RESPONSES = {
    "model": MODEL,
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "rain ?"}]},
        {"type": "function_call", "call_id": "1", "name": "rain", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "no"},
        {"type": "message", "role": "assistant", "content": "no"},
    ],
    "instructions": "be short",
    "max_output_tokens": 8,
    "temperature": 0.5,
    "tools": [{"type": "function", "name": "rain", "parameters": {"type": "object"}}],
    "tool_choice": {"type": "function", "name": "rain"},
    "text": {"format": {"type": "text"}},
    "store": False,
    "stream": True,
}
TOKENS = {"model": MODEL, "prompt": [[1, 0], [2]], "max_tokens": 8, "echo": True, "stream": True}
CASES = [
    pytest.param("/v1/completions", TOKENS, TEMPLATE, id="tokens"),
    *(pytest.param(path, body, TEMPLATE, id=path) for path, body in BODIES.items()),
    pytest.param("/v1/chat/completions", TOOLS, tool_templates.HERMES, id="tools"),
    pytest.param("/v1/responses", RESPONSES, tool_templates.HERMES, id="responses"),
]

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3, 2**31, -(2**31) - 1, 2**63, 2**64, 10**30, 0.5, -0.0, 1e308),
    *(float("nan"), float("inf"), "", "x", "1", "<image>", "</s>", "\0", "\ud800", "é" * 300),
    *([], {}, [[]], [{}], {"": {}}, [None] * 9, ["a"] * 9, [0] * 99, {"type": "text"}),
    *({"-1": 1}, {"99": "x"}, {"1": 1e9}, {str(number): 1 for number in range(1500)}),
    [[[[[[[[1]]]]]]]],
)
ROUNDS = 250
"""Bodies of each endpoint, three changes at the most: two seconds."""


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of everything inside a body."""
    found = [path] if path else []
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, one in inside:
        found += _places(one, (*path, key))
    return found


def _changed(body: dict[str, Any], choose: random.Random, path: str) -> dict[str, Any]:
    made = copy.deepcopy(body)
    for _ in range(choose.randint(1, 3)):
        *way, last = choose.choice(_places(made)) if made else (None,)
        if last is None:
            break
        holder: Any = made
        for key in way:
            holder = holder[key]
        match choose.randrange(4):
            case 0:
                del holder[last]
            case 1 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[last]))
            case 2:
                names = [name for name in PARAMETERS if path in endpoints_of(name)]
                made[choose.choice(names or ["model"])] = copy.deepcopy(choose.choice(VALUES))
            case _:
                holder[last] = copy.deepcopy(choose.choice(VALUES))
    return made


@pytest.mark.parametrize(("path", "given", "template"), CASES)
async def test_mutations(tmp_path: Path, path: str, given: dict[str, Any], template: str) -> None:
    """Whatever the body, the answer is one, or OpenAI's error object; no place stays taken."""
    choose = random.Random(path)  # noqa: S311 - the same changes in every run
    statuses: dict[int, int] = {}
    engine = ScriptedEngine(
        ("Yes.<tool_call>", '{"name": "rain", "argum', 'ents": {"a": 1}}', "</")
    )
    async with (
        serve(toy_gateway(tmp_path, engine, template=template, max_queue_size=30)) as running,
        httpx.AsyncClient(base_url=running.url, timeout=60) as client,
    ):
        for _ in range(ROUNDS):
            body = json.dumps(_changed(given, choose, path))
            answer = await client.post(path, content=body.encode())
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
            assert answer.status_code < 500, body
            assert '"server_error"' not in answer.text, body
            if answer.status_code >= 400:
                error = answer.json()["error"]
                assert {"message", "type", "param", "code"} == set(error), body
                assert len(error["message"]) < 2000, body
        # The client may have the last byte before the server has left the request.
        await eventually_async(lambda: running.gateway.admission.inside == 0)
    assert {200, 400} <= set(statuses), statuses
