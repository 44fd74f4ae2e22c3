"""What is wrong with a response is said of its own parts, not of the chat that it means."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from support import tool_templates
from support.gateways import MODEL, toy_gateway
from support.images import data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine

IMAGE = data_url(encode(plain_image()))
CALLS = [
    {"type": "function_call", "call_id": "c1", "name": "rain", "arguments": "{}"},
    {"type": "function_call", "call_id": "c2", "name": "rain", "arguments": "{}"},
]


def _image(**fields: object) -> dict[str, object]:
    return {"type": "input_image", "image_url": IMAGE, **fields}


def _user(*parts: object) -> dict[str, object]:
    return {"role": "user", "content": list(parts)}


CASES = {
    "text": ({"input": "<image>"}, "input"),
    "instructions": ({"instructions": "<image>"}, "instructions"),
    "part-behind-instructions": (
        {"instructions": "x", "input": [_user({"type": "input_text", "text": "</s>"})]},
        "input[0].content[0]",
    ),
    "message-behind-calls": (
        {"input": [*CALLS, {"role": "user", "content": "<image>"}]},
        "input[2].content",
    ),
    "call": ({"input": [{**CALLS[0], "arguments": '{"a": "</s>"}'}]}, "input[0]"),
    "id-of-an-output": (
        {"input": [{"type": "function_call_output", "call_id": "</s>", "output": "x"}]},
        "input[0].call_id",
    ),
    "output": (
        {"input": [{"type": "function_call_output", "call_id": "c", "output": "</s>"}]},
        "input[0].output",
    ),
    "damaged-image": (
        {"input": [_user(_image(image_url="data:image/png;base64,AAAA"))]},
        "input[0].content[0]",
    ),
    "too-many-images": (
        {"instructions": "x", "input": [_user(*[_image()] * 5)]},
        "input[0].content[4]",
    ),
    "nothing-but-thoughts": ({"input": [{"type": "reasoning", "summary": []}]}, "input"),
    "too-long": ({"input": "x " * 1000}, "input"),
    "too-long-an-answer": ({"max_output_tokens": 9999}, "input"),
    "all-arguments": (
        {"input": [{**CALLS[0], "arguments": '{"a": "%s"}' % ("x" * 60_000)}] * 5},
        "input",
    ),
    "tool": ({"tools": [{"type": "function", "name": "rain", "description": "</s>"}]}, "tools[0]"),
    "choice": (
        {
            "tools": [{"type": "function", "name": "rain"}],
            "tool_choice": {"type": "function", "name": "a blank"},
        },
        "tool_choice.name",
    ),
    "schema": (
        {
            "text": {
                "format": {"type": "json_schema", "name": "x", "schema": {"title": "x" * 2**17}}
            }
        },
        "text.format.schema",
    ),
}


@pytest.mark.parametrize(("fields", "param"), CASES.values(), ids=list(CASES))
async def test_refused(tmp_path: Path, fields: dict[str, Any], param: str) -> None:
    """The parameter and the message have the request's names, and none of a chat's."""
    gateway = toy_gateway(tmp_path, ScriptedEngine(), template=tool_templates.HERMES)
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=gateway.app), base_url="http://gateway"
        ) as client:
            body = {"model": MODEL, "input": "x", **fields}
            answer = await client.post("/v1/responses", json=body, timeout=60)
    finally:
        gateway.close()
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert not any(
        name in error["message"] for name in ("messages", "response_format", "list should")
    )
