"""One trace of a request goes through router and gateway; by default there is none."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_edge import spans, tracing
from mm_router.catalog import Model
from mm_runtime.gateway.errors import EngineFailedError
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.images import data_url, encode, plain_image
from support.otlp_receiver import Receiver, otlp_receiver
from support.routers import RunningRouter, address_of, route
from support.scripted_engine import ScriptedEngine

PATH = "/v1/chat/completions"
PROMPT, KEY = "topsecretprompt", "topsecretkey"
TRACE, SPAN = "ab" * 16, "cd" * 8
CHILD = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}
UNRECORDED = {"traceparent": f"00-{TRACE}-{SPAN}-00"}


def body(**more: Any) -> dict[str, Any]:
    image = {"type": "image_url", "image_url": {"url": data_url(encode(plain_image()))}}
    content = [{"type": "text", "text": PROMPT}, image]
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **more}


@asynccontextmanager
async def path_to(
    engine: ScriptedEngine, folder: Path
) -> AsyncIterator[tuple[RunningRouter, httpx.AsyncClient]]:
    """Yield a router before a gateway, and a client of it; at the end all spans are sent."""
    keys = folder / "keys"
    keys.write_text(f"team: {KEY}\n")
    headers = {"authorization": f"Bearer {KEY}", "x-request-id": "abc-1"}
    async with (
        serve(toy_gateway(folder, engine, auth_token_file=keys)) as gateway,
        route({Model("blue", MODEL): [address_of(gateway)]}) as router,
        httpx.AsyncClient(base_url=router.url, timeout=60, headers=headers) as client,
    ):
        yield router, client


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=p-0")
        yield receiver


async def test_a_request_is_one_trace(receiver: Receiver, tmp_path: Path) -> None:
    """The client's; each part is in the one that it belongs to, and nothing of its content."""
    engine = ScriptedEngine()
    async with path_to(engine, tmp_path) as (_, client):
        assert (await client.post(PATH, json=body(), headers=CHILD)).status_code == 200

    found = {(one.service.removeprefix("multimodal-"), one.name): one for one in receiver.spans}
    outer, inner = found["router", f"POST {PATH}"], found["gateway", f"POST {PATH}"]
    parts = [found["gateway", name] for name in ("preprocess", "load media", "generate")]
    generate = parts[-1]
    assert len(receiver.spans) == len(found) == 5
    assert {(one.trace, one.status) for one in receiver.spans} == {(TRACE, 0)}
    assert [one.parent for one in (outer, inner, *parts)] == [SPAN, outer.id, *[inner.id] * 3]
    assert (outer.kind, inner.kind, generate.kind) == (2, 2, 1)
    assert (outer.events, generate.events) == (["sent"], ["first token"])
    sent_on = {**CHILD, "traceparent": f"00-{TRACE}-{generate.id}-01"}
    assert dict(engine.requests[0].trace) == sent_on
    expected = {
        "http.response.status_code": 200,
        "http.request.header.x-request-id": "abc-1",
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 3,
    }
    assert expected.items() <= inner.attributes.items()
    assert outer.resource["k8s.pod.name"] == "p-0"
    secrets = f"{PROMPT}|{KEY}|red square|base64|team".encode()
    assert not re.search(secrets, b"".join(receiver.bodies))


@cases(
    "sampler sent count",
    {
        "client-decides-yes": ("parentbased_always_off", CHILD, 5),
        "client-decides-no": ("parentbased_always_on", UNRECORDED, 0),
        "router-decides": ("parentbased_always_off", {}, 0),
    },
)
async def test_the_first_decides_what_is_recorded(
    receiver: Receiver, tmp_path: Path, sampler: str, sent: dict[str, str], count: int
) -> None:
    """A server behind is sent a trace only where it is recorded: Triton would record any."""
    engine = ScriptedEngine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_TRACES_SAMPLER", sampler)
        async with path_to(engine, tmp_path) as (_, client):
            assert (await client.post(PATH, json=body(), headers=sent)).status_code == 200
    assert (len(receiver.spans), bool(engine.requests[0].trace)) == (count, count > 0)


async def test_failures_are_the_status_of_spans(receiver: Receiver, tmp_path: Path) -> None:
    """By class and status: an error's message may quote the request."""
    engine = ScriptedEngine(error=EngineFailedError(PROMPT, code="engine_error"))
    async with path_to(engine, tmp_path) as (_, client):
        assert (await client.post(PATH, json=body())).status_code == 500
        assert (await client.post(PATH, json=body(temperature="hot"))).status_code == 400
    failed = [(one.name, one.attributes["error.type"]) for one in receiver.spans if one.status == 2]
    assert sorted(failed) == [*[(f"POST {PATH}", "500")] * 2, ("generate", "EngineFailedError")]
    assert PROMPT.encode() not in b"".join(receiver.bodies)


async def test_a_client_that_leaves_ends_the_spans(receiver: Receiver, tmp_path: Path) -> None:
    engine = ScriptedEngine(gate=asyncio.Event())
    async with path_to(engine, tmp_path) as (_, client):
        async with client.stream("POST", PATH, json=body(stream=True)) as answer:
            await anext(answer.aiter_bytes())
        await eventually_async(lambda: engine.cancelled == 1)
    of_requests = [one for one in receiver.spans if one.kind == 2]
    assert [one.attributes["http.response.status_code"] for one in of_requests] == [499, 499]
    assert "generate" in {one.name for one in receiver.spans}


async def test_a_receiver_that_hangs_delays_no_request(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does not take is dropped and counted; the end does not wait for it either."""
    receiver.answers.clear()
    monkeypatch.setattr(spans, "_FLUSH_SECONDS", 0.1)
    for name, value in (("MAX_QUEUE_SIZE", "2"), ("MAX_EXPORT_BATCH_SIZE", "1")):
        monkeypatch.setenv(f"OTEL_BSP_{name}", value)
    async with path_to(ScriptedEngine(), tmp_path) as (router, client):
        for _ in range(6):
            assert (await client.post(PATH, json=body())).status_code == 200
        await eventually_async(lambda: router.count("mm_router_spans_dropped_total") >= 2)
    assert receiver.spans == []


async def test_by_default_nothing_is_traced(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    async with path_to(engine, tmp_path) as (router, client):
        assert (await client.post(PATH, json=body(), headers=CHILD)).status_code == 200
    assert (router.router.tracer, engine.requests[0].trace) == (None, ())


def test_by_default_nothing_is_imported() -> None:
    program = (
        "import sys, mm_router.assembly, mm_runtime.gateway.main, mm_edge.tracing as t\n"
        "print(t.open_tracer('any', print), 'opentelemetry' in ' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"None", b"False"]


@cases(
    "environment url",
    {
        "base": ({"ENDPOINT": "http://a:4318/"}, "http://a:4318/v1/traces"),
        "own": ({"ENDPOINT": "http://a", "TRACES_ENDPOINT": "http://b/x"}, "http://b/x"),
        "exporter": ({"": "otlp"}, "http://localhost:4318/v1/traces"),
        "other-exporter": ({"ENDPOINT": "http://a", "": "zipkin"}, ""),
        "grpc": ({"ENDPOINT": "http://a", "PROTOCOL": "grpc"}, ""),
    },
)
def test_the_environment_is_opentelemetrys(environment: dict[str, str], url: str) -> None:
    prefix = "OTEL_EXPORTER_OTLP_"
    named = {f"{prefix}{k}" if k else "OTEL_TRACES_EXPORTER": v for k, v in environment.items()}
    assert tracing.traces_url(named) == url
