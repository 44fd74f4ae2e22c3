"""What is refused, what acts and what the page says come from one table, which is complete."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mm_api.backends import BACKENDS, REFERENCE
from mm_edge.errors import InvalidRequestError
from mm_runtime.gateway.api.audio import TranscriptionRequest, TranslationRequest
from mm_runtime.gateway.api.openai import ChatRequest, CompletionRequest
from mm_runtime.gateway.api.parameters import (
    AUDIO_PARAMETERS,
    PARAMETERS,
    RESPONSE_PARAMETERS,
    endpoints_of,
    refuse_unserved,
)
from mm_runtime.gateway.api.parsing import parse_chat, parse_completion
from mm_runtime.gateway.api.responses import ResponsesRequest
from mm_runtime.gateway.api.unused import INSTEAD

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "parameters.md"
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
USED = {"min_p": 0.1, "logprobs": True, "top_logprobs": 2, "top_k": 3}


def test_the_table_is_complete() -> None:
    fields = {*ChatRequest.model_fields, *CompletionRequest.model_fields}
    assert fields == set(PARAMETERS)
    assert all(endpoints_of(name) for name in PARAMETERS)
    assert set(ResponsesRequest.model_fields) == set(RESPONSE_PARAMETERS)
    audio = {*TranscriptionRequest.model_fields, *TranslationRequest.model_fields}
    assert audio == set(AUDIO_PARAMETERS)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", sorted(USED))
def test_what_does_not_act_is_refused(backend: str, name: str) -> None:
    fields = {name: USED[name]} | ({"logprobs": True} if name == "top_logprobs" else {})
    request = ChatRequest.model_validate({**QUESTION, **fields})
    if backend in PARAMETERS[name].acts:
        refuse_unserved(request, backend)
        return
    with pytest.raises(InvalidRequestError, match=f"`{name}` .* {backend}") as refusal:
        refuse_unserved(request, backend)
    assert (refusal.value.param, refusal.value.code) == (name, "unsupported_parameter")


@pytest.mark.parametrize("backend", [REFERENCE.name, "TensorRT"])
def test_what_does_not_act_on_audio_is_refused(backend: str) -> None:
    request = TranscriptionRequest.model_validate(
        {"model": "m", "file": b"", "temperature": "1", "top_k": "3", "min_p": "0.1"}
    )
    if backend == REFERENCE.name:
        refuse_unserved(request, backend)
        return
    with pytest.raises(InvalidRequestError, match=r"`min_p` .* only by Reference") as refusal:
        refuse_unserved(request, backend)
    assert (refusal.value.param, refusal.value.code) == ("min_p", "unsupported_parameter")


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_used_passes_everywhere(backend: str) -> None:
    """Null, and the values of clients that write every field."""
    for name, parameter in PARAMETERS.items():
        if "/v1/chat/completions" not in endpoints_of(name) or name in QUESTION:
            continue
        for value in (None, *parameter.unused):
            refuse_unserved(ChatRequest.model_validate({**QUESTION, name: value}), backend)


@pytest.mark.parametrize("name", sorted(name for name, one in PARAMETERS.items() if not one.acts))
def test_what_acts_nowhere_is_refused_when_it_is_read(name: str) -> None:
    if "/v1/chat/completions" not in endpoints_of(name):
        pytest.skip("of texts only")
    with pytest.raises(InvalidRequestError) as refusal:
        parse_chat(json.dumps({**QUESTION, name: [[7]]}).encode(), "")
    assert refusal.value.code == "unsupported_parameter"
    assert (refusal.value.param or "").startswith(name)


def test_the_page_has_every_row() -> None:
    of_parameters = PAGE.read_text(encoding="utf-8").partition("## By family")[0]
    rows = re.findall(r"^\| `(\w+)` \|", of_parameters, re.MULTILINE)
    assert sorted(rows) == sorted((*PARAMETERS, *RESPONSE_PARAMETERS, *AUDIO_PARAMETERS))
    assert f"| {REFERENCE.name} |" in PAGE.read_text(encoding="utf-8")


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
