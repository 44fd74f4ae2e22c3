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
