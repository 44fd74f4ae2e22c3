"""Each row of the table of vLLM's requests, against a real gateway and its Triton."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from openai import APIStatusError, OpenAI

from support.build_plans import serving_plan
from support.families import texts
from support.families.pipeline import build
from support.real_gateway import run_pair
from support.tiny_llava import BuiltEngine
from support.vllm_requests import OF_AUDIO, ROWS
from support.vllm_requests.recordings import RECORDINGS
from support.vllm_requests.table import (
    CHAT,
    RESPONSE,
    TEXT,
    TRANSCRIPTION,
    TRANSLATION,
    Refused,
    Row,
)

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

SECONDS = 60
AUDIO = (TRANSCRIPTION, TRANSLATION)


def check(client: OpenAI, row: Row) -> None:
    """Assert that an answer has the row's property, or that a refusal has its parameter."""
    if isinstance(row.here, Refused):
        status, error = _refusal(client, row)
        assert row.here.status == status, error
        assert error["type"] == "invalid_request_error"
        assert row.here.param == error["param"], error
        assert row.here.code in {None, error["code"]}, error
        assert row.here.says.lower() in error["message"].lower(), error
        return
    answers = [_answer(client, row, row.fields)]
    if row.beside is not None:
        answers.append(_answer(client, row, row.beside))
    assert row.here(*answers), answers


def _answer(client: OpenAI, row: Row, fields: Mapping[str, Any]) -> Any:
    """Return an answer as an object of JSON or a text; of a stream a list of objects."""
    body = row.body(fields)
    if row.raw is None and (make := _method(client, row, body)):
        named = ("model", "messages", "prompt", "input", "file", "response_format")
        fixed = {
            name: body.pop(name)
            for name in named
            if name in body and (name != "response_format" or row.path in AUDIO)
        }
        if row.path in AUDIO:
            fixed["file"] = ("audio", RECORDINGS[fixed["file"]]())
        if stream := bool(body.pop("stream", False)):
            fixed["stream"] = True
        found = make(**fixed, extra_body=body)
        if isinstance(found, str):
            return found
        return [one.model_dump() for one in found] if stream else found.model_dump()
    response = _plain(client, row, body)
    assert response.status_code == httpx.codes.OK, response.text
    if "json" in response.headers["content-type"]:
        return response.json()
    if "event-stream" in response.headers["content-type"]:
        return [*map(json.loads, _events(response.text))]
    return response.text


def _events(stream: str) -> list[str]:
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line]
    return [line for line in lines if line != "[DONE]"]


def _method(client: OpenAI, row: Row, body: Mapping[str, Any]) -> Any:
    """Return the client's method for a request; None: it has none that would send it."""
    methods = {
        CHAT: ("messages", client.chat.completions.create),
        TEXT: ("prompt", client.completions.create),
        RESPONSE: ("input", client.responses.create),
        TRANSCRIPTION: ("file", client.audio.transcriptions.create),
        TRANSLATION: ("file", client.audio.translations.create),
    }
    needed, make = methods.get(row.path, ("", None))
    if row.path in AUDIO and body.get("file") not in RECORDINGS:
        return None  # the client reads a text as the name of a file
    if row.path == TRANSLATION and body.get("stream"):
        return None  # it reads no stream there
    return make if {"model", needed} <= set(body) and not row.headers else None


def _plain(client: OpenAI, row: Row, body: dict[str, Any]) -> httpx.Response:
    url = str(client.base_url).removesuffix("/v1/") + row.path
    headers = {"content-type": "application/json", **row.headers}
    if row.method == "GET":
        return httpx.get(url, headers=row.headers, timeout=SECONDS)
    if row.raw is not None:
        return httpx.post(url, content=row.raw, headers=headers, timeout=SECONDS)
    if row.path in AUDIO:
        return httpx.post(url, files=_form(body), timeout=SECONDS)
    return httpx.post(url, json=body, headers=headers, timeout=SECONDS)


def _form(body: Mapping[str, Any]) -> dict[str, tuple[str | None, str | bytes]]:
    """Return the fields of a form; a file that is none of the table's is a text as others are."""
    fields: dict[str, tuple[str | None, str | bytes]] = {}
    for name, value in body.items():
        file = RECORDINGS.get(value) if name == "file" else None
        text = str(value).lower() if isinstance(value, bool) else str(value)
        fields[name] = (None, text) if file is None else ("audio", file())
    return fields


def _refusal(client: OpenAI, row: Row) -> tuple[int, dict[str, Any]]:
    body = row.body(row.fields)
    if row.raw is None and _method(client, row, body):
        with pytest.raises(APIStatusError) as refusal:
            _answer(client, row, row.fields)
        found: Any = refusal.value.body
        return refusal.value.status_code, found
    response = _plain(client, row, body)
    return response.status_code, response.json()["error"]


def _named(row: Row) -> object:
    return pytest.param(row, id=f"{row.path}-{row.name}")


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenAI]:
    """The official client on a real gateway, whose one model is a Whisper."""
    folder = tmp_path_factory.mktemp("listener")
    directory = build(texts.write("whisper", folder / "checkpoint"), folder / "store")
    serving = folder / "plan.json"
    serving.write_text(serving_plan(directory.manifest.fingerprint).to_json())
    with (
        run_pair(BuiltEngine(directory.root, serving), folder, request_timeout_seconds=60) as pair,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
    ):
        yield openai


@pytest.mark.slow
@pytest.mark.parametrize("row", [_named(row) for row in ROWS if row not in OF_AUDIO])
def test_rows(client: OpenAI, row: Row) -> None:
    """An answer has the row's property; a refusal is OpenAI's error with the row's parameter."""
    check(client, row)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # by OpenAI, for its own model
@pytest.mark.parametrize("row", [*map(_named, OF_AUDIO)])
def test_rows_of_audio(listener: OpenAI, row: Row) -> None:
    check(listener, row)


def test_rows_have_names_of_their_own() -> None:
    names = [(row.path, row.name) for row in ROWS]
    assert len(names) == len(set(names))
