"""One address for all models: real gateways behind a real router, over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from mm_router.catalog import Model
from mm_router.settings import Settings
from support.eventually import eventually_async
from support.gateways import MODEL, Running, serve, toy_gateway
from support.routers import RunningRouter, address_of, route
from support.scripted_engine import ScriptedEngine

TOY = Model("blue", MODEL, ("poet",), 1_700_000_000, modalities=("text", "image"))


@asynccontextmanager
async def routed(
    folder: Path, *engines: ScriptedEngine, settings: Settings | None = None, **changes: Any
) -> AsyncIterator[tuple[RunningRouter, list[Running]]]:
    async with AsyncExitStack() as stack:
        gateways = [
            await stack.enter_async_context(
                serve(toy_gateway(folder / str(n), one, adapters=("poet",), **changes))
            )
            for n, one in enumerate(engines)
        ]
        addresses = [address_of(one) for one in gateways]
        router = await stack.enter_async_context(route({TOY: addresses}, settings))
        yield router, gateways


def chat(*contents: str, **parameters: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": one} for n, one in enumerate(contents)]
    return {"model": MODEL, "messages": messages, **parameters}


@pytest.mark.parametrize("model", ["toy", "blue/toy", "poet", "blue/toy:poet"])
@pytest.mark.parametrize("stream", [False, True], ids=["complete", "stream"])
async def test_openais_client_gets_its_answer(tmp_path: Path, model: str, *, stream: bool) -> None:
    async with (
        routed(tmp_path, ScriptedEngine()) as (router, _),
        openai.AsyncOpenAI(base_url=f"{router.url}/v1", api_key="none", max_retries=0) as client,
    ):
        messages: Any = chat("hello")["messages"]
        if stream:
            chunks = await client.chat.completions.create(
                model=model, messages=messages, stream=True
            )
            text = "".join([one.choices[0].delta.content or "" async for one in chunks])
        else:
            answer = await client.chat.completions.create(model=model, messages=messages)
            text = answer.choices[0].message.content or ""

    assert text == "a red square"


async def test_turns_of_a_chat_go_to_one_replica(tmp_path: Path) -> None:
    engines = [ScriptedEngine() for _ in range(3)]
    async with routed(tmp_path, *engines) as (router, _), httpx.AsyncClient(timeout=60) as client:
        seen = []
        for number in range(12):
            before = [len(one.requests) for one in engines]
            for turns in (1, 3, 5):
                body = chat(*(f"chat {number}", *["and"] * 4)[:turns])
                answer = await client.post(f"{router.url}/v1/chat/completions", json=body)
                assert answer.status_code == 200
            seen.append([len(e.requests) - n for e, n in zip(engines, before, strict=True)])

    assert all(sorted(one) == [0, 0, 3] for one in seen)
    assert len({tuple(one) for one in seen}) > 1
    assert router.count("mm_router_placements_total", model="blue/toy", by="affinity") == 36


async def test_a_stream_is_passed_on_as_it_comes(tmp_path: Path) -> None:
    engine = ScriptedEngine(gate=asyncio.Event())
    async with (
        routed(tmp_path, engine) as (router, _),
        httpx.AsyncClient(timeout=60) as client,
        client.stream(
            "POST", f"{router.url}/v1/chat/completions", json=chat("hello", stream=True)
        ) as answer,
    ):
        assert engine.gate is not None
        events = answer.aiter_lines()
        async for line in events:
            if '"content":"a"' in line:
                break
        assert engine.running == 1
        assert router.count("mm_router_outstanding_requests", model="blue/toy") == 1

        engine.gate.set()
        rest = [line async for line in events if line]

    assert rest[-1] == "data: [DONE]"


async def test_a_client_that_leaves_ends_its_generation(tmp_path: Path) -> None:
    engine = ScriptedEngine(gate=asyncio.Event())
    async with routed(tmp_path, engine) as (router, _), httpx.AsyncClient(timeout=60) as client:
        async with client.stream(
            "POST", f"{router.url}/v1/chat/completions", json=chat("hello", stream=True)
        ) as answer:
            await anext(answer.aiter_bytes())

        await eventually_async(lambda: engine.cancelled == 1)
        await eventually_async(
            lambda: router.count("mm_router_requests_total", model="blue/toy", code="499") == 1
        )
        assert router.count("mm_router_outstanding_requests", model="blue/toy") == 0


async def test_models_are_listed_and_found(tmp_path: Path) -> None:
    async with (
        routed(tmp_path, ScriptedEngine()) as (router, gateways),
        openai.AsyncOpenAI(base_url=f"{router.url}/v1", api_key="none", max_retries=0) as client,
        httpx.AsyncClient(timeout=60) as plain,
    ):
        listed = [one.id async for one in await client.models.list()]
        assert listed == ["toy", "poet"]
        for name in (*listed, "blue/toy", "blue/toy:poet"):
            assert (await client.models.retrieve(name)).created == TOY.created
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            await client.models.retrieve("other")
        for url in (router.url, gateways[0].url):
            described = await plain.get(f"{url}/v1/models")
            modalities = [one["input_modalities"] for one in described.json()["data"]]
            assert modalities == [["text", "image"]] * 2


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        pytest.param("POST", "/v1/chat/completions", b"{", 400, "The body is not JSON", id="json"),
        pytest.param(
            "POST", "/v1/chat/completions/", b'{"model":"x"}', 404, "does not exist", id="model"
        ),
        pytest.param("GET", "/v1/chat/completions", b"", 405, "Method Not Allowed", id="method"),
        pytest.param("POST", "/v1/models", b"", 405, "Method Not Allowed", id="listing"),
        pytest.param("POST", "/v2/models/x/infer", b"{}", 404, "Not Found", id="path"),
        pytest.param("GET", "/metrics", b"", 404, "Not Found", id="metrics"),
        pytest.param("GET", "//v1/models", b"", 404, "Not Found", id="slashes"),
        *(
            pytest.param("POST", f"/v1/audio/{one}", b"{}", 400, "The body must be a form", id=one)
            for one in ("transcriptions", "translations")
        ),
        pytest.param(
            "POST", "/v1/completions", b" " * 200_001, 413, "larger than 200000 bytes", id="size"
        ),
        pytest.param(
            "POST", "/v1/chat/completions", b'{"model":"toy"}', 400, "messages", id="the-gateways"
        ),
    ],
)
async def test_what_is_refused(
    tmp_path: Path, *, method: str, path: str, body: bytes, status: int, message: str
) -> None:
    settings = Settings(max_body_bytes=200_000)
    async with (
        routed(tmp_path, ScriptedEngine(), settings=settings) as (router, _),
        httpx.AsyncClient(timeout=60) as client,
    ):
        answer = await client.request(method, router.url + path, content=body)

    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


async def test_tokens_of_clients_pass_and_are_not_kept(tmp_path: Path) -> None:
    """A model that requires a token gets it from the client; headers of the connection stay."""
    tokens = tmp_path / "tokens"
    tokens.write_text("secret\n")
    gateway = toy_gateway(tmp_path / "engine", ScriptedEngine(), auth_token_file=tokens)
    async with (
        serve(gateway) as running,
        route({TOY: [address_of(running)]}) as router,
        httpx.AsyncClient(timeout=60) as client,
    ):
        answers = [
            await client.post(
                f"{router.url}/v1/chat/completions", json=chat("hello"), headers=headers
            )
            for headers in ({}, {"authorization": "Bearer secret"})
        ]

    assert [one.status_code for one in answers] == [401, 200]
    assert answers[0].headers["www-authenticate"] == "Bearer"
