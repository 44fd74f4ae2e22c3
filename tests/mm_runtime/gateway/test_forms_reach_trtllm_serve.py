"""Backend PyTorch: forms are sent as the server's version keeps them, or refused by name.

The recorded server answers without a form what it always does, so a form that it drops is seen.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from mm_api.documents.trtllm_serve import TrtllmServe
from mm_runtime.backends.openai_server.client import OpenAiServerEngine
from mm_runtime.backends.pytorch.client import TrtllmServeDialect
from support.cases import cases
from support.gateways import MODEL, serve, toy_gateway
from support.model_configs import planned
from support.recorded_server import RecordedServer, recorded_server

SECONDS = 60
SCHEMA = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/one"}},
    "required": ["a"],
    "$defs": {"one": {"const": 1}},
}
NAMED = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}


def _planned(version: str, guided: str = "Auto") -> TrtllmServe:
    engine = {"backend": "PyTorch", "guidedDecoding": guided}
    plan = planned("qwen2-vl", engine, version=version)
    assert plan.serve
    return plan.serve


def _options(plan: TrtllmServe) -> dict[str, Any]:
    return {name: one for name, one in plan.options.items() if name.startswith("guided")}


@pytest.fixture(scope="module", params=["1.2.1", "1.3.0rc20"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RecordedServer, TrtllmServe]]:
    """A server of each kind of version, with the plan's options."""
    plan = _planned(request.param)
    folder = tmp_path_factory.mktemp("recorded")
    with recorded_server(folder, request.param, _options(plan)) as running:
        yield running, plan


@asynccontextmanager
async def _client(
    folder: Path, server: RecordedServer, plan: TrtllmServe
) -> AsyncIterator[AsyncOpenAI]:
    engine = OpenAiServerEngine(server.address, TrtllmServeDialect(MODEL), request_seconds=SECONDS)
    async with (
        serve(toy_gateway(folder, engine, trtllm_serve=plan)) as running,
        AsyncOpenAI(
            base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=SECONDS
        ) as client,
    ):
        yield client
    await engine.close()


@pytest.fixture
async def client(
    tmp_path: Path, server: tuple[RecordedServer, TrtllmServe]
) -> AsyncIterator[AsyncOpenAI]:
    async with _client(tmp_path, *server) as found:
        yield found


async def _answer(client: AsyncOpenAI, **form: object) -> str:
    body: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "?"}]}
    answer = await client.chat.completions.create(**body, extra_body=form)
    return answer.choices[0].message.content or ""


async def test_schemas(client: AsyncOpenAI) -> None:
    """Every version keeps them: the answer is the object, and not a list or a sentence."""
    assert json.loads(await _answer(client, response_format=NAMED)) == {"a": 1}
    assert json.loads(await _answer(client, structured_outputs={"json": SCHEMA})) == {"a": 1}
    assert json.loads(await _answer(client, response_format={"type": "json_object"})) == {}


async def test_patterns(client: AsyncOpenAI) -> None:
    assert await _answer(client, structured_outputs={"regex": "red"}) == "red"
    assert await _answer(client, structured_outputs={"choice": ["blue", "green"]}) == "blue"


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"response_format": NAMED}, "response_format"),
        ({"structured_outputs": {"regex": "red"}}, "structured_outputs.regex"),
    ],
)
async def test_older_servers_are_sent_no_form(
    tmp_path: Path, form: dict[str, Any], param: str
) -> None:
    """All forms have one floor, which the refusal names beside the version that was found."""
    with recorded_server(tmp_path, "1.1.0") as running:
        async with _client(tmp_path / "gateway", running, _planned("1.1.0")) as client:
            with pytest.raises(BadRequestError, match=r"since TensorRT-LLM 1\.2.*1\.1\.0") as found:
                await _answer(client, **form)
        assert not running.requested
    assert (found.value.param, found.value.code) == (param, "unsupported_parameter")


@cases(
    "form param",
    {
        "dropped-keyword": (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": {"type": "array", "uniqueItems": True}},
                }
            },
            "response_format.json_schema.schema",
        )
    },
)
async def test_what_is_not_kept_is_refused(
    client: AsyncOpenAI,
    server: tuple[RecordedServer, TrtllmServe],
    form: dict[str, Any],
    param: str,
) -> None:
    """By name, before anything is sent: the server would drop some of it silently."""
    before = len(server[0].requested)
    with pytest.raises(BadRequestError) as refusal:
        await _answer(client, **form)
    assert refusal.value.param == param
    assert len(server[0].requested) == before


async def test_a_server_without_the_option_is_sent_no_form(
    tmp_path: Path, server: tuple[RecordedServer, TrtllmServe]
) -> None:
    off = _planned(server[1].version, "Off")
    async with _client(tmp_path, server[0], off) as client:
        with pytest.raises(BadRequestError, match="must not be Off"):
            await _answer(client, response_format=NAMED)


async def test_the_recorded_server_drops_forms_silently(tmp_path: Path) -> None:
    """Started without the option, as upstream: a plan that lost it would fail the tests above."""
    plan = _planned("1.2.1")
    with recorded_server(tmp_path, "1.2.1") as running:
        async with _client(tmp_path / "gateway", running, plan) as client:
            answer = await _answer(client, response_format=NAMED)
    assert answer == "A recorded answer about 0 images."
