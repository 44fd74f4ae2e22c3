"""`/v1/responses`, stateless: the official client, its events, the real path and a script."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.responses import Response

from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from support import tool_templates
from support.cases import cases
from support.gateways import MODEL, TEMPLATE, client_of, serve, toy_gateway
from support.images import data_url, encode, plain_image
from support.real_gateway import RealGateway
from support.scripted_engine import ScriptedEngine
from support.tiny_llava import samples

SAMPLE = samples()[0]
TOOL = {"type": "function", "name": "rain", "parameters": {"type": "object"}, "strict": True}
CALL = (
    "Well. ",
    '<tool_call>\n{"name": "rain", "argu',
    'ments": {"city": ',
    '"Ulm"}}\n</tool_call>',
)
HISTORY = [
    {"role": "user", "content": "rain ?"},
    {"type": "function_call", "call_id": "c1", "name": "rain", "arguments": '{"city": "Ulm"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "dry"},
]


@pytest.mark.triton
@pytest.mark.timeout(600)
async def test_an_image_is_described(real: RealGateway, real_client: AsyncOpenAI) -> None:
    """Text and image in, text out; the stream's deltas are the same text."""
    url = data_url(SAMPLE.image.read_bytes())
    parts = [
        {"type": "input_text", "text": SAMPLE.question},
        {"type": "input_image", "image_url": url, "detail": "auto"},
    ]
    body: dict[str, Any] = {
        "model": real.model,
        "input": [{"role": "user", "content": parts}],
        "temperature": 0,
    }
    answer = await real_client.responses.create(**body, max_output_tokens=24, store=False)
    assert (answer.output_text.strip(), answer.status) == (SAMPLE.answer, "completed")
    assert answer.usage.input_tokens > 16
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    events = [event async for event in await real_client.responses.create(**body, stream=True)]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    last = events[-1]
    assert (last.type, last.response.output_text) == ("response.completed", text)
    assert text == answer.output_text
    short = await real_client.responses.create(**body, max_output_tokens=1)
    assert (short.status, short.incomplete_details.reason) == ("incomplete", "max_output_tokens")


async def test_calls_are_items(tmp_path: Path) -> None:
    """Text, then a call: each an item, opened and closed in the stream, numbered throughout."""
    gateway = toy_gateway(tmp_path, ScriptedEngine(CALL), template=tool_templates.HERMES)
    async with (
        serve(gateway) as running,
        AsyncOpenAI(base_url=f"{running.url}/v1", api_key="x", max_retries=0, timeout=60) as client,
    ):
        body: dict[str, Any] = {
            "model": MODEL,
            "input": "rain ?",
            "instructions": "be short",
            "tools": [TOOL],
        }
        answer = await client.responses.create(**body)
        message, call = answer.output
        assert (message.type, message.content[0].text) == ("message", "Well. ")
        assert (call.type, call.name, json.loads(call.arguments)) == (
            "function_call",
            "rain",
            {"city": "Ulm"},
        )
        events = [event async for event in await client.responses.create(**body, stream=True)]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert [event.type.removeprefix("response.") for event in events] == [
            *("created", "in_progress"),
            *("output_item.added", "content_part.added", "output_text.delta"),
            *("output_text.done", "content_part.done", "output_item.done"),
            *("output_item.added", "function_call_arguments.delta"),
            *("function_call_arguments.delta", "function_call_arguments.done"),
            *("output_item.done", "completed"),
        ]
        assert events[-1].response.output[1].arguments == call.arguments
        # The items go back as they came, with what the function has found.
        found = {"type": "function_call_output", "call_id": call.call_id, "output": "dry"}
        history = [{"role": "user", "content": "rain ?"}, *answer.output, found]
        await client.responses.create(**{**body, "input": history})


async def test_items_become_a_prompt(tmp_path: Path) -> None:
    """Instructions, calls and what they found stand where the chat template puts them."""
    engine = ScriptedEngine()
    async with client_of(toy_gateway(tmp_path, engine, template=tool_templates.HERMES)) as client:
        body = {"model": MODEL, "input": HISTORY, "instructions": "be short"}
        assert (await client.post("/v1/responses", json=body)).status_code == 200
    assert engine.requests[0].prompt == (
        "<s>system\nbe short\nuser\nrain ?\nassistant\n\n<tool_call>\n"
        '{"name": "rain", "arguments": {"city": "Ulm"}}\n</tool_call>\n'
        "user\n<tool_response>\ndry\n</tool_response>\nassistant\n"
    )


class Remembering(ScriptedEngine):
    """Knows two tokens of each prompt from earlier requests."""

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        async with aclosing(super().generate(request)) as pieces:
            async for piece in pieces:
                yield replace(piece, cached=2) if isinstance(piece, Text) else piece


async def test_known_tokens_are_counted(tmp_path: Path) -> None:
    """Usage says how many tokens of the prompt were known, and has all fields of openai's type."""
    async with (
        serve(toy_gateway(tmp_path, Remembering())) as running,
        AsyncOpenAI(base_url=f"{running.url}/v1", api_key="x", max_retries=0, timeout=60) as client,
    ):
        answer = await client.responses.create(model=MODEL, input="what is it ?")
    Response.model_validate(answer.to_dict(), strict=True)
    assert answer.usage is not None
    assert answer.usage.input_tokens_details.cached_tokens == 2


IMAGE = data_url(encode(plain_image()))
CALLS = [
    {"type": "function_call", "call_id": "c1", "name": "rain", "arguments": "{}"},
    {"type": "function_call", "call_id": "c2", "name": "rain", "arguments": "{}"},
]


OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}
RAIN = {"type": "function", "name": "rain"}


def _image(**fields: object) -> dict[str, object]:
    return {"type": "input_image", "image_url": IMAGE, **fields}


def _user(*parts: object) -> dict[str, object]:
    return {"role": "user", "content": list(parts)}


CASES = {
    "store": ({"store": True}, "store", "not served"),
    "previous": ({"previous_response_id": "resp_1"}, "previous_response_id", "not served"),
    "background": ({"background": True}, "background", "not served"),
    "reasoning": ({"reasoning": {"effort": "low"}}, "reasoning", "not served"),
    "truncation": ({"truncation": "auto"}, "truncation", "not served"),
    "unknown": ({"top_k": 3}, "top_k", "unknown here"),
    "no-input": ({"input": []}, "input", "at least 1 item"),
    "x": ({"input": [{"type": "thought", "role": "user"}]}, "input[0]", "'thought'"),
    "no-tools": ({"tool_choice": "required"}, "tool_choice", "no `tools`"),
    "no-choice": ({"tool_choice": "always"}, "tool_choice", "'required'"),
    "other-choice": ({"tool_choice": {"type": "file_search"}}, "tool_choice.type", "'function'"),
    "other-tool": ({"tools": [{"type": "web_search"}]}, "tools[0].type", "'function'"),
    "format": ({"text": {"format": {"type": "xml"}}}, "text.format", "json_schema"),
    "part": ({"input": [_user({"type": "input_file"})]}, "input[0].content[0]", "input_image"),
    "text": ({"input": "<image>"}, "input", ""),
    "instructions": ({"instructions": "<image>"}, "instructions", ""),
    "part-behind-instructions": (
        {"instructions": "x", "input": [_user({"type": "input_text", "text": "</s>"})]},
        "input[0].content[0]",
        "",
    ),
    "message-behind-calls": (
        {"input": [*CALLS, {"role": "user", "content": "<image>"}]},
        "input[2].content",
        "",
    ),
    "call": ({"input": [{**CALLS[0], "arguments": '{"a": "</s>"}'}]}, "input[0]", ""),
    "id-of-an-output": ({"input": [{**OUTPUT, "call_id": "</s>"}]}, "input[0].call_id", ""),
    "output": ({"input": [{**OUTPUT, "output": "</s>"}]}, "input[0].output", ""),
    "damaged-image": (
        {"input": [_user(_image(image_url="data:image/png;base64,AAAA"))]},
        "input[0].content[0]",
        "",
    ),
    "too-many-images": (
        {"instructions": "x", "input": [_user(*[_image()] * 5)]},
        "input[0].content[4]",
        "",
    ),
    "nothing-but-thoughts": ({"input": [{"type": "reasoning", "summary": []}]}, "input", ""),
    "too-long": ({"input": "x " * 1000}, "input", ""),
    "too-long-an-answer": ({"max_output_tokens": 9999}, "input", ""),
    "all-arguments": (
        {"input": [{**CALLS[0], "arguments": '{"a": "%s"}' % ("x" * 60_000)}] * 5},
        "input",
        "",
    ),
    "tool": ({"tools": [RAIN | {"description": "</s>"}]}, "tools[0]", ""),
    "choice": (
        {"tools": [RAIN], "tool_choice": RAIN | {"name": "a blank"}},
        "tool_choice.name",
        "",
    ),
    "schema": (
        {
            "text": {
                "format": {"type": "json_schema", "name": "x", "schema": {"title": "x" * 2**17}}
            }
        },
        "text.format.schema",
        "",
    ),
}


@cases("fields param words", CASES)
async def test_refused(tmp_path: Path, fields: dict[str, Any], param: str, words: str) -> None:
    """The parameter and the message have the request's names, and none of a chat's."""
    gateway = toy_gateway(tmp_path, ScriptedEngine(), template=tool_templates.HERMES)
    async with client_of(gateway) as client:
        body = {"model": MODEL, "input": "x", **fields}
        answer = await client.post("/v1/responses", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], words in error["message"]) == (param, True), error
    assert not any(
        name in error["message"] for name in ("messages", "response_format", "list should")
    )


async def test_a_template_without_tools_is_named(tmp_path: Path) -> None:
    """By openai's client, which raises it as an error of its own."""
    async with (
        serve(toy_gateway(tmp_path, ScriptedEngine(), template=TEMPLATE)) as running,
        AsyncOpenAI(base_url=f"{running.url}/v1", api_key="x", max_retries=0, timeout=60) as client,
    ):
        with pytest.raises(BadRequestError, match="no place for tools") as refusal:
            await client.responses.create(model=MODEL, input="x", tools=[TOOL])
    assert refusal.value.param == "tools"
