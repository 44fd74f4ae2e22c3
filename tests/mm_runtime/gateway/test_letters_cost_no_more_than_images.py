"""Megabytes of letters, which a body may have for its images, take no time where they are text."""

import json
import re
from typing import Any

import pytest

from mm_runtime.backends.reference import call_grammar
from mm_runtime.backends.reference import forms as reference_forms
from mm_runtime.backends.reference.forms import ReferenceForms
from mm_runtime.backends.trtllm import forms as trtllm_forms
from mm_runtime.backends.trtllm.forms import TrtllmForms
from mm_runtime.gateway.api.messages import MAX_ALL_TEXT, Message
from mm_runtime.gateway.api.openai import ChatRequest
from mm_runtime.gateway.api.parsing import parse_chat
from mm_runtime.gateway.api.tool_dialects import ToolDialect
from mm_runtime.gateway.backends.backend import Forms
from mm_runtime.gateway.backends.forms import form_of
from mm_runtime.gateway.errors import InvalidRequestError

JSON = "application/json"
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
    """Refused where they are parsed, beside the event loop."""
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

    for module in (reference_forms, trtllm_forms, call_grammar):
        monkeypatch.setattr(module.json, "dumps", refuse)
