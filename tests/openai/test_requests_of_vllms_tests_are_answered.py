"""Each row of the table of vLLM's requests, against a real gateway and its Triton.

The official client sends what it has a method for; the rest is plain HTTP.
"""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from openai import APIStatusError, OpenAI

from support.vllm_requests import ROWS
from support.vllm_requests.table import CHAT, RESPONSE, TEXT, Refused, Row

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

SECONDS = 60


@pytest.mark.parametrize("row", [pytest.param(row, id=f"{row.path}-{row.name}") for row in ROWS])
def test_rows(client: OpenAI, row: Row) -> None:
    """An answer has the row's property; a refusal is OpenAI's error with the row's parameter."""
    if isinstance(row.here, Refused):
        status, error = _refusal(client, row)
        assert row.here.status == status, error
        assert error["type"] == "invalid_request_error"
        assert row.here.param == error["param"], error
        assert row.here.code in {None, error["code"]}, error
        assert row.here.says.lower() in error["message"].lower()
        return
    answers = [_answer(client, row, row.fields)]
    if row.beside is not None:
        answers.append(_answer(client, row, row.beside))
    assert row.here(*answers), answers


def _answer(client: OpenAI, row: Row, fields: Mapping[str, Any]) -> Any:
    """Return an answer as an object of JSON; of a stream a list of them."""
    body = row.body(fields)
    if row.raw is None and (make := _method(client, row, body)):
        fixed = {
            name: body.pop(name)
            for name in ("model", "messages", "prompt", "input")
            if name in body
        }
        stream = bool(body.pop("stream", False))
        found = make(**fixed, stream=stream, extra_body=body)
        return [one.model_dump() for one in found] if stream else found.model_dump()
    response = _plain(client, row, body)
    assert response.status_code == httpx.codes.OK, response.text
    if "json" in response.headers["content-type"]:
        return response.json()
    return response.text


def _method(client: OpenAI, row: Row, body: Mapping[str, Any]) -> Any:
    """Return the client's method for a request; None: it has none that would send it."""
    methods = {
        CHAT: ("messages", client.chat.completions.create),
        TEXT: ("prompt", client.completions.create),
        RESPONSE: ("input", client.responses.create),
    }
    needed, make = methods.get(row.path, ("", None))
    return make if {"model", needed} <= set(body) and not row.headers else None


def _plain(client: OpenAI, row: Row, body: Mapping[str, Any]) -> httpx.Response:
    url = str(client.base_url).removesuffix("/v1/") + row.path
    headers = {"content-type": "application/json", **row.headers}
    if row.method == "GET":
        return httpx.get(url, headers=row.headers, timeout=SECONDS)
    if row.raw is not None:
        return httpx.post(url, content=row.raw, headers=headers, timeout=SECONDS)
    return httpx.post(url, json=body, headers=headers, timeout=SECONDS)


def _refusal(client: OpenAI, row: Row) -> tuple[int, dict[str, Any]]:
    """Return status and error object of a refusal."""
    body = row.body(row.fields)
    if row.raw is None and _method(client, row, body):
        with pytest.raises(APIStatusError) as refusal:
            _answer(client, row, row.fields)
        found: Any = refusal.value.body
        return refusal.value.status_code, found
    response = _plain(client, row, body)
    return response.status_code, response.json()["error"]


def test_rows_have_names_of_their_own() -> None:
    """A row can be found by its name; each names where vLLM requests it."""
    names = [(row.path, row.name) for row in ROWS]
    assert len(names) == len(set(names))
    assert all(row.sets for row in ROWS)
