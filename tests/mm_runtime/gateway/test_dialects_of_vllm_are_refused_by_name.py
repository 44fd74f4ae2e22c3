"""Parameters of vLLM that act nowhere: refused with what to send instead, and null is absent."""

import json
from collections.abc import Callable

import pytest

from mm_runtime.gateway.api.parsing import parse_chat, parse_completion
from mm_runtime.gateway.api.unused import INSTEAD
from mm_runtime.gateway.errors import InvalidRequestError

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
JSON = "application/json"
TEXT = {"model": "m", "prompt": "hi"}
Parse = Callable[[bytes, str | None], object]


def refused(parse: Parse, body: dict[str, object]) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        parse(json.dumps(body).encode(), JSON)
    return caught.value


@pytest.mark.parametrize("name", [one for one in INSTEAD if "." not in one])
@pytest.mark.parametrize(
    ("parse", "body"), [(parse_chat, CHAT), (parse_completion, TEXT)], ids=["chat", "text"]
)
def test_what_to_send_instead_is_said(parse: Parse, body: dict[str, object], name: str) -> None:
    """Any value is refused, those that change nothing elsewhere too; null is no value."""
    error = refused(parse, {**body, name: 0})

    assert (error.param, error.code) == (name, "unsupported_parameter")
    assert INSTEAD[name] in str(error)
    parse(json.dumps({**body, name: None}).encode(), JSON)


@pytest.mark.parametrize("name", ["grammar", "structural_tag"])
def test_forms_that_one_library_knows(name: str) -> None:
    """Inside of `structured_outputs` they are refused in the same way."""
    error = refused(parse_chat, {**CHAT, "structured_outputs": {name: "a"}})

    param = f"structured_outputs.{name}"
    assert (error.param, error.code) == (param, "unsupported_parameter")
    assert INSTEAD[param] in str(error)


@pytest.mark.parametrize("stream", [False, True])
def test_an_echo_has_no_scores(*, stream: bool) -> None:
    """One of both is left out; without the other each is read."""
    error = refused(parse_completion, {**TEXT, "echo": True, "logprobs": 0, "stream": stream})

    assert error.param == "logprobs"
    assert "leave `echo` or this out" in str(error)
    for fields in ({"echo": True}, {"logprobs": 0}, {"echo": True, "logprobs": False}):
        parse_completion(json.dumps({**TEXT, **fields}).encode(), JSON)
