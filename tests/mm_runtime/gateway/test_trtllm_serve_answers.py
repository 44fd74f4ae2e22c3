"""Backend PyTorch: what clients query of the gateway reaches trtllm-serve, and its answers them."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from openai import AsyncOpenAI

from mm_api.documents.trtllm_serve import TrtllmServe
from mm_runtime.backends.openai_server.client import OpenAiServerEngine
from mm_runtime.backends.pytorch.client import TrtllmServeDialect, open_trtllm_serve
from mm_runtime.serving.directory import EngineDirectory
from support.eventually import eventually_async
from support.gateways import (
    MODEL,
    Running,
    client_of,
    serve,
    toy_gateway,
    toy_manifest,
    toy_serving,
)
from support.images import data_url, encode, plain_image
from support.recorded_server import RecordedServer, recorded_server

SECONDS = 60
ANSWER = "A recorded answer about 0 images."
ABORTED = "client is disconnected, abort"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedServer]:
    with recorded_server(tmp_path_factory.mktemp("recorded")) as server:
        yield server


@pytest.fixture
async def gateway(tmp_path: Path, server: RecordedServer) -> AsyncIterator[Running]:
    engine = OpenAiServerEngine(server.address, TrtllmServeDialect(MODEL), request_seconds=SECONDS)
    async with serve(toy_gateway(tmp_path, engine)) as running:
        yield running
    await engine.close()


@pytest.fixture
async def openai(gateway: Running) -> AsyncIterator[AsyncOpenAI]:
    url = f"{gateway.url}/v1"
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=SECONDS) as client:
        yield client


@pytest.fixture
async def client(gateway: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=gateway.url, timeout=SECONDS) as client:
        yield client


def body(*parts: object, **fields: object) -> dict[str, object]:
    return {"model": MODEL, "messages": [{"role": "user", "content": list(parts)}], **fields}


def order(word: str) -> dict[str, str]:
    return {"type": "text", "text": f"order: {word}"}


def image(width: int, height: int) -> dict[str, object]:
    url = data_url(encode(plain_image((width, height))))
    return {"type": "image_url", "image_url": {"url": url}}


async def test_a_plain_answer_has_the_servers_usage(openai: AsyncOpenAI) -> None:
    """Text, reason and generated tokens are the server's; the prompt's are those checked."""
    answer = await openai.chat.completions.create(**body(order("none")))
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == (ANSWER, "stop")
    assert answer.usage
    # <s> USER: order: none ASSISTANT:
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5, 6)


async def test_a_stream_comes_in_pieces(openai: AsyncOpenAI) -> None:
    """Each of the server's chunks is one of ours, then the reason, then the usage."""
    stream = await openai.chat.completions.create(
        **body(order("none")), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert [text for text in texts if text] == [
        *("A", " recorded", " answer", " about", " 0", " images.")
    ]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage
    assert chunks[-1].usage.completion_tokens == 6


async def test_a_limit_of_tokens_is_reported(openai: AsyncOpenAI) -> None:
    answer = await openai.chat.completions.create(**body(order("none"), max_tokens=3))
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (
        "A recorded answer",
        "length",
    )


async def test_images_are_passed_on_checked_and_small(
    client: httpx.AsyncClient, server: RecordedServer
) -> None:
    """The server is given PNGs as the family needs them, never a URL, and every field it knows."""
    requested = body(
        order("none"), image(300, 200), image(80, 90), temperature=0.5, top_p=0.9, seed=7
    )
    requested |= {"presence_penalty": 0.25, "frequency_penalty": -0.5, "max_completion_tokens": 9}
    answer = (await client.post("/v1/chat/completions", json=requested)).json()
    assert answer["choices"][0]["message"]["content"] == "A recorded answer about 2 images."
    reported = server.requested[-1]
    # The toy family's square has 56 pixels a side.
    assert reported.pop("images") == [[56, 56], [56, 56]]
    assert reported == {
        "model": MODEL,
        "roles": ["user"],
        "max_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "presence_penalty": 0.25,
        "frequency_penalty": -0.5,
    }


async def test_a_stop_string_ends_the_servers_work(
    client: httpx.AsyncClient, server: RecordedServer
) -> None:
    before = server.log.count(ABORTED)
    requested = body(order("count"), stop=" 5")
    answer = (await client.post("/v1/chat/completions", json=requested)).json()
    assert answer["choices"][0]["message"]["content"] == "1 2 3 4"
    assert answer["choices"][0]["finish_reason"] == "stop"
    await eventually_async(lambda: server.log.count(ABORTED) == before + 1, seconds=SECONDS)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_refusal_is_the_clients(client: httpx.AsyncClient, *, stream: bool) -> None:
    """The server's 400 becomes ours, with the first line of its reason."""
    requested = body(order("fail"), stream=stream)
    answer = await client.post("/v1/chat/completions", json=requested)
    assert answer.status_code == 400
    message = "The model refused the request: The model had the order to fail."
    assert answer.json()["error"]["message"] == message


async def test_a_client_that_leaves_ends_the_servers_work(
    gateway: Running, server: RecordedServer
) -> None:
    """Closing our connection closes the server's: upstream aborts what no one reads."""
    before, requested = server.log.count(ABORTED), len(server.requested)
    content = json.dumps(body(order("hang"), stream=True)).encode()
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    writer.write(head.encode() + content)
    load = gateway.gateway.admission.load
    await eventually_async(lambda: len(server.requested) == requested + 1, seconds=SECONDS)
    assert load.running == 1
    writer.close()
    await writer.wait_closed()
    await eventually_async(lambda: load.running == 0, seconds=SECONDS)
    await eventually_async(lambda: server.log.count(ABORTED) == before + 1, seconds=SECONDS)


async def test_a_salt_is_passed_on(client: httpx.AsyncClient, server: RecordedServer) -> None:
    """The server keeps KV blocks of other salts apart; without one it is reported nothing."""
    for more in ({"cache_salt": "ann"}, {}):
        await client.post("/v1/chat/completions", json=body(order("none"), **more))
    assert [one.get("cache_salt") for one in server.requested[-2:]] == ["ann", None]


async def test_a_salt_is_refused_where_nothing_keeps_it(
    tmp_path: Path, server: RecordedServer
) -> None:
    """A server that is too old for it is not queried: 400 names the field and the version."""
    requested = len(server.requested)
    engine = OpenAiServerEngine(
        server.address, TrtllmServeDialect(MODEL, takes_salt=False), request_seconds=SECONDS
    )
    async with client_of(toy_gateway(tmp_path, engine)) as client:
        answer = await client.post(
            "/v1/chat/completions", json=body(order("none"), cache_salt="ann")
        )
    await engine.close()
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "cache_salt")
    assert "since 1.1" in error["message"]
    assert len(server.requested) == requested


def _plan(version: str) -> TrtllmServe:
    return TrtllmServe(
        version=version,
        checkpoint=f"models/{MODEL}",
        port=8000,
        argv=["trtllm-serve"],
        options_file="options.yaml",
        options={},
    )


@pytest.mark.parametrize(
    ("version", "salt", "templates"),
    [
        *(("0.20.0", False, True), ("1.0.0", False, True), ("1.0.3.2510", False, True)),
        *(("1.1.0rc2", False, True), ("1.1.0", True, True), ("1.2.0rc1", True, True)),
        *(("1.2.1", True, True), ("1.3.0rc10", True, True), ("1.3.0rc20", True, False)),
        *(("1.3.0", True, False), ("1.4.0rc1", True, False)),
    ],
)
def test_fields_come_and_go_with_versions(version: str, *, salt: bool, templates: bool) -> None:
    """Of 1.1's candidates not all know salts; those after one of 1.3 need no templates."""
    plan = _plan(version)
    assert (plan.takes_salt, plan.takes_templates) == (salt, templates)


async def test_a_server_that_dies_costs_what_it_had(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A stream ends with an error event, a plain answer is 503 with Retry-After, as is the next."""
    with recorded_server(tmp_path_factory.mktemp("dying")) as server:
        engine = OpenAiServerEngine(
            server.address, TrtllmServeDialect(MODEL), request_seconds=SECONDS
        )
        async with client_of(toy_gateway(tmp_path, engine)) as client:
            assert await engine.is_ready()
            hanging = asyncio.create_task(
                client.post("/v1/chat/completions", json=body(order("hang")))
            )
            await eventually_async(lambda: len(server.requested) == 1, seconds=SECONDS)
            stream = await client.post("/v1/chat/completions", json=body(order("die"), stream=True))
            plain = await hanging
            later = await client.post("/v1/chat/completions", json=body(order("none")))
            assert not await engine.is_ready()
        await engine.close()
    *_, last = stream.text.strip().split("\n\n")
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_unavailable"
    assert (plain.status_code, later.status_code) == (503, 503)
    assert (plain.headers["retry-after"], later.headers["retry-after"]) == ("1", "1")


def test_a_gateway_before_an_engine_with_adapters_does_not_start(tmp_path: Path) -> None:
    """Of another version of the operator: the server would answer with the checkpoint's weights."""
    update = {"backend": "PyTorch", "trtllm_serve": _plan("1.1.0")}
    serving = toy_serving().model_copy(update=update)
    with pytest.raises(ValueError, match="LoRA adapters, which are not applied on PyTorch"):
        open_trtllm_serve(EngineDirectory(tmp_path, toy_manifest(["one"])), serving, "")
