"""A body that takes seconds or gigabytes to parse is refused; large images cost little."""

import base64
import json
import random
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mm_edge.errors import InvalidRequestError
from mm_edge.json_cost import MAX_ELEMENTS, MAX_ESCAPES, TEXT_BYTES, check_cost
from mm_runtime.backends.reference import forms as reference_forms
from mm_runtime.backends.reference.forms import ReferenceForms
from mm_runtime.backends.trtllm import forms as trtllm_forms
from mm_runtime.backends.trtllm.forms import TrtllmForms
from mm_runtime.gateway import wiring
from mm_runtime.gateway.api.messages import (
    MAX_ALL_TEXT,
    MAX_MESSAGES,
    MAX_PARTS,
    Message,
)
from mm_runtime.gateway.api.openai import ChatRequest
from mm_runtime.gateway.api.parsing import parse_chat, parse_completion
from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.backends.backend import Forms
from mm_runtime.gateway.backends.forms import form_of
from support.cases import cases
from support.gateways import MODEL, client_of, toy_gateway
from support.images import data_url
from support.scripted_engine import ScriptedEngine

JSON = "application/json"
BYTES = random.Random(1).randbytes(3_000_000)  # noqa: S311 - as images are: no pattern
IMAGE = data_url(BYTES)


def _body(content: object, **more: object) -> bytes:
    message = {"role": "user", "content": content}
    return json.dumps({"model": "m", "messages": [message], **more}).encode()


BOMBS = {
    "empty-parts": _body([{}] * (MAX_ELEMENTS + 1)),
    "numbers": _body([1] * MAX_ELEMENTS),
    "unknown-keys": _body("x", **{str(number): 1 for number in range(MAX_ELEMENTS)}),
    "strings-without-commas": b'"x"' * (5 * MAX_ELEMENTS) + b'"' + b"," * (MAX_ELEMENTS + 1),
    "commas-behind-escapes": _body("\\", x=['"\\'] * MAX_ELEMENTS),
    "escapes": b'{"model":"' + b"\\/" * 1_000_001 + b'"}',
    "punctuation": _body("." * (2 * TEXT_BYTES)),
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError, match=r"The body has .*(elements|escapes|bytes)"):
        check_cost(body)


@cases(
    "body",
    {
        "commas-in-text": _body("a, b" * 100_000),
        "escaped-quotes-and-commas": _body('\\",' * 20_000),
        "escaped-script": _body("好" * 900_000),
        "utf-8": _body("好" * 1_300_000).decode("unicode-escape").encode(),
        "image": _body([{"type": "image_url", "image_url": {"url": IMAGE}}]),
        "image-as-php-writes-it": _body(
            [{"type": "image_url", "image_url": {"url": IMAGE}}]
        ).replace(b"/", b"\\/"),
        "wrapped-base64": _body(base64.encodebytes(BYTES).decode()),
        "many-messages": json.dumps(
            {
                "model": "m",
                "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]
                * (MAX_MESSAGES - 1),
            }
        ).encode(),
    },
)
def test_what_requests_hold_passes(body: bytes) -> None:
    """Long texts of any script, and images however they are written."""
    check_cost(body)


@pytest.mark.parametrize(
    ("one", "most"), [(b",", MAX_ELEMENTS), (b"\\", MAX_ESCAPES)], ids=["commas", "escapes"]
)
@pytest.mark.parametrize("apart", [0, 3], ids=["together", "apart"])
def test_counts_are_exact(one: bytes, most: int, apart: int) -> None:
    """As many as are read pass, whether they stand together or over several megabytes."""
    body = (one + b"x" * apart) * most
    check_cost(body)
    with pytest.raises(InvalidRequestError, match="The body has"):
        check_cost(body + one)


@pytest.mark.parametrize("shift", range(6))
def test_an_escape_may_lie_across_what_is_counted_at_a_time(shift: int) -> None:
    """A megabyte ends before, in and after an escaped quote: what follows is inside the string."""
    check_cost(_body("x" * ((1 << 20) - 60 + shift) + '\\",' * (MAX_ELEMENTS + 1)))


def test_the_first_of_many_wrong_parts_is_named() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_chat(_body([{}] * MAX_PARTS), JSON)
    assert caught.value.param == "messages[0].content[0]"


def test_more_parts_than_a_message_has_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="at most 1024 items") as caught:
        parse_chat(_body([{"type": "text", "text": ""}] * (MAX_PARTS + 1)), JSON)
    assert caught.value.param == "messages[0].content"


def test_thousands_of_unknown_keys_are_not_written_out() -> None:
    with pytest.raises(InvalidRequestError, match="The body has 5000 errors"):
        parse_chat(_body("x", **{str(number): 1 for number in range(5000)}), JSON)


def test_metadata_has_openais_limit() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_chat(_body("x", metadata={str(number): "" for number in range(17)}), JSON)
    assert caught.value.param == "metadata"


@pytest.mark.parametrize("parse", [parse_chat, parse_completion], ids=["chat", "completion"])
def test_both_kinds_of_requests_are_counted_first(parse: Callable[[bytes, str], object]) -> None:
    """The elements are the reason, not what a model of the request says of them."""
    with pytest.raises(InvalidRequestError, match="more than 16384 elements"):
        parse(BOMBS["empty-parts"], JSON)


LETTERS = "a" * 5_000_000
SCHEMA = {"type": "object", "properties": {"x": {"enum": [LETTERS]}}}
QUESTION = [{"role": "user", "content": "x"}]


class Unread(str):
    """A text that cannot be read letter by letter."""

    __slots__ = ()

    def __iter__(self) -> Any:
        raise AssertionError("read letter by letter")


def parsed(**fields: object) -> ChatRequest:
    body = {"model": "m", "messages": QUESTION, **fields}
    return parse_chat(json.dumps(body).encode(), JSON)


def test_a_text_is_no_list_of_parts() -> None:
    """Whether a conversation fetches media is seen without reading its texts."""
    message = Message.model_construct(role="user", content=Unread("x"))
    assert not ChatRequest.model_construct(model="m", messages=[message]).fetches


@pytest.mark.parametrize("contents", [[LETTERS], ["x", [{"type": "text", "text": LETTERS}]]])
def test_conversations_have_so_much_text(contents: list[object]) -> None:
    messages = [{"role": "user", "content": one} for one in contents]
    with pytest.raises(InvalidRequestError, match=f"more than {MAX_ALL_TEXT} characters") as found:
        parsed(messages=messages)
    assert found.value.param == "messages"


@pytest.mark.parametrize("fields", [{LETTERS: 1}, {"logit_bias": {LETTERS: 1}}])
def test_errors_name_the_beginning_of_a_key(fields: dict[str, object]) -> None:
    """An answer is not as long as what is wrong in the request."""
    with pytest.raises(InvalidRequestError) as found:
        parsed(**fields)
    assert len(str(found.value)) + len(found.value.param or "") < 1000


STATED = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}},
    "structured_outputs": {"json": SCHEMA},
    "structured_outputs as a text": {"json": json.dumps(SCHEMA)},
}


@pytest.mark.parametrize("written", [ReferenceForms(), TrtllmForms()], ids=["own", "server"])
@pytest.mark.parametrize("stated", STATED)
def test_large_schemas_are_not_written(
    monkeypatch: pytest.MonkeyPatch, stated: str, written: Forms
) -> None:
    request = parsed(**{stated.split(maxsplit=1)[0]: STATED[stated]})
    _refuse_writing(monkeypatch)
    with pytest.raises(InvalidRequestError, match=r"(has|have|of) \d+ bytes"):
        form_of(request, None, written)


def test_large_schemas_of_functions_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    function = {"name": "f", "parameters": SCHEMA}
    request = parsed(tools=[{"type": "function", "function": function}], tool_choice="required")
    _refuse_writing(monkeypatch)
    with pytest.raises(InvalidRequestError, match="`tools` is a form of"):
        form_of(request, ToolDialect("", "", "parameters", re.compile("x")), ReferenceForms())


def _refuse_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_schema: object) -> str:
        raise AssertionError("written")

    for module in (reference_forms, trtllm_forms):
        monkeypatch.setattr(module.json, "dumps", refuse)


SHORT = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "what ?"}]})


SIZED = {
    "small": (SHORT, False),
    "of few elements": (SHORT + " " * 100_000, False),
    "large": (SHORT[:-1] + f', "user": "{"," * 300}"' + " " * 100_000 + "}", True),
}
"""Each with whether it is parsed beside the loop."""


@pytest.mark.parametrize("body", SIZED)
async def test_only_large_bodies_take_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """A small one is parsed sooner than a thread begins."""
    content, beside = SIZED[body]
    parsed: list[bool] = []

    def noted(body: bytes, kind: str) -> ChatRequest:
        parsed.append(threading.current_thread() is not threading.main_thread())
        return parse_chat(body, kind)

    monkeypatch.setattr(wiring, "parse_chat", noted)
    gateway = toy_gateway(tmp_path, ScriptedEngine(), max_image_bytes=2_000_000)
    async with client_of(gateway) as client:
        answer = await client.post("/v1/chat/completions", content=content.encode())
    assert (answer.status_code, parsed) == (200, [beside])
