"""One trace of a request goes through router and gateway; by default there is none."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
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

TOY = Model("blue", MODEL)
PATH = "/v1/chat/completions"
SECRETS = ("topsecretprompt", "topsecretkey")
TRACE, SPAN = "ab" * 16, "cd" * 8
CHILD = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}


def body(**more: Any) -> dict[str, Any]:
    image = {"type": "image_url", "image_url": {"url": data_url(encode(plain_image()))}}
    content = [{"type": "text", "text": SECRETS[0]}, image]
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **more}


@asynccontextmanager
async def path_to(
    engine: ScriptedEngine, folder: Path
) -> AsyncIterator[tuple[RunningRouter, httpx.AsyncClient]]:
    """Yield a router before a gateway, and a client of it; what is left of spans is sent behind."""
    keys = folder / "keys"
    keys.write_text(f"team: {SECRETS[1]}\n")
    async with (
        serve(toy_gateway(folder, engine, auth_token_file=keys)) as gateway,
        route({TOY: [address_of(gateway)]}) as router,
        httpx.AsyncClient(
            base_url=router.url, timeout=60, headers={"authorization": f"Bearer {SECRETS[1]}"}
        ) as client,
    ):
        yield router, client


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Any:
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=p-0")
        for name in ("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"):
            monkeypatch.setenv(name, "")
        yield receiver


async def test_a_request_is_one_trace(receiver: Receiver, tmp_path: Path) -> None:
    """The client's; each part is in the one that it belongs to, and nothing of its content."""
    engine = ScriptedEngine()
    async with path_to(engine, tmp_path) as (_, client):
        answer = await client.post(PATH, json=body(), headers={**CHILD, "x-request-id": "abc-1"})
        assert answer.status_code == 200

    spans = {(one.service, one.name): one for one in receiver.spans}
    outer, inner = (
        spans["multimodal-router", f"POST {PATH}"],
        spans["multimodal-gateway", f"POST {PATH}"],
    )
    before, media, generate = (
        spans["multimodal-gateway", name] for name in ("preprocess", "load media", "generate")
    )
    assert len(receiver.spans) == len(spans) == 5
    assert {one.trace for one in receiver.spans} == {TRACE}
    assert [one.parent for one in (outer, inner, before, media, generate)] == [
        *(SPAN, outer.id, inner.id, inner.id, inner.id)
    ]
    assert (outer.kind, inner.kind, generate.kind) == (2, 2, 1)
    [request] = engine.requests
    assert dict(request.trace) == {**CHILD, "traceparent": f"00-{TRACE}-{generate.id}-01"}
    assert (outer.events, generate.events) == (["sent"], ["first token"])
    assert outer.resource["k8s.pod.name"] == "p-0"
    assert {name: inner.attributes[name] for name in inner.attributes if "gen_ai" in name} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.server.time_to_first_token": inner.attributes["gen_ai.server.time_to_first_token"],
    }
    for one in (outer, inner):
        assert one.attributes["http.response.status_code"] == 200
        assert one.attributes["http.request.header.x-request-id"] == ["abc-1"]
    assert {one.status for one in receiver.spans} == {0}
    sent = b"".join(receiver.bodies)
    assert not re.search("|".join((*SECRETS, "red square", "base64", "team")).encode(), sent)


@cases(
    "sampler sent spans",
    {
        "client-decides-yes": ("parentbased_always_off", CHILD, 5),
        "client-decides-no": (
            "parentbased_always_on",
            {"traceparent": CHILD["traceparent"][:-1] + "0"},
            0,
        ),
        "ratio": ("parentbased_traceidratio", {}, 0),
    },
)
async def test_the_first_decides_what_is_recorded(
    receiver: Receiver, tmp_path: Path, sampler: str, sent: dict[str, str], spans: int
) -> None:
    """A server behind is sent a trace only where it is recorded: Triton would record any."""
    engine = ScriptedEngine()
    os.environ |= {"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": "0"}
    async with path_to(engine, tmp_path) as (_, client):
        assert (await client.post(PATH, json=body(), headers=sent)).status_code == 200
    assert (len(receiver.spans), bool(engine.requests[0].trace)) == (spans, spans > 0)


async def test_failures_are_the_status_of_spans(receiver: Receiver, tmp_path: Path) -> None:
    """By class and status: an error's message may quote the request."""
    engine = ScriptedEngine(error=EngineFailedError(SECRETS[0], code="engine_error"))
    async with path_to(engine, tmp_path) as (_, client):
        assert (await client.post(PATH, json=body())).status_code == 500
        assert (await client.post(PATH, json=body(temperature="hot"))).status_code == 400
    failed = [(one.name, one.attributes["error.type"]) for one in receiver.spans if one.status == 2]
    assert sorted(failed) == [*[(f"POST {PATH}", "500")] * 2, ("generate", "EngineFailedError")]
    assert SECRETS[0].encode() not in b"".join(receiver.bodies)


async def test_a_stream_ends_its_span_when_its_client_leaves(
    receiver: Receiver, tmp_path: Path
) -> None:
    engine = ScriptedEngine(gate=asyncio.Event())
    async with path_to(engine, tmp_path) as (_, client):
        async with client.stream("POST", PATH, json=body(stream=True)) as answer:
            await anext(answer.aiter_bytes())
        await eventually_async(lambda: engine.cancelled == 1)
    of_requests = [one for one in receiver.spans if one.kind == 2]
    assert [one.attributes["http.response.status_code"] for one in of_requests] == [499, 499]
    assert [one.events for one in receiver.spans if one.name == "generate"] == [["first token"]]


async def test_a_receiver_that_does_not_answer_delays_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does not take is dropped and counted; the end does not wait for it either."""
    monkeypatch.setattr(spans, "_FLUSH_SECONDS", 0.1)
    for name, value in (("MAX_QUEUE_SIZE", "2"), ("MAX_EXPORT_BATCH_SIZE", "1")):
        monkeypatch.setenv(f"OTEL_BSP_{name}", value)
    with otlp_receiver(answers=False) as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/v1/traces")
        async with path_to(ScriptedEngine(), tmp_path) as (router, client):
            for _ in range(6):
                assert (await client.post(PATH, json=body())).status_code == 200
            await eventually_async(lambda: router.count("mm_router_spans_dropped_total") >= 2)
        assert receiver.spans == []


async def test_by_default_nothing_is_traced(tmp_path: Path) -> None:
    """No header more; a client's trace ends here."""
    engine = ScriptedEngine()
    async with path_to(engine, tmp_path) as (router, client):
        assert (await client.post(PATH, json=body(), headers=CHILD)).status_code == 200
    assert (router.router.tracer, engine.requests[0].trace) == (None, ())


def test_by_default_nothing_is_imported() -> None:
    program = (
        "import sys, mm_router.assembly, mm_runtime.gateway.main, mm_edge.tracing as t\n"
        "assert t.open_tracer('any', print) is None\n"
        "print([one for one in sys.modules if 'opentelemetry' in one])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


@cases(
    "environment url",
    {
        "none": ({}, ""),
        "base": ({"ENDPOINT": "http://a:4318/"}, "http://a:4318/v1/traces"),
        "own": ({"ENDPOINT": "http://a", "TRACES_ENDPOINT": "http://b/x"}, "http://b/x"),
        "exporter": ({"": "otlp"}, "http://localhost:4318/v1/traces"),
        "off": ({"ENDPOINT": "http://a", "": "none"}, ""),
        "other-exporter": ({"ENDPOINT": "http://a", "": "zipkin"}, ""),
        "grpc": ({"ENDPOINT": "http://a", "PROTOCOL": "grpc"}, ""),
    },
)
def test_the_environment_is_opentelemetrys(environment: dict[str, str], url: str) -> None:
    named = {
        f"OTEL_EXPORTER_OTLP_{name}" if name else "OTEL_TRACES_EXPORTER": value
        for name, value in environment.items()
    }
    assert tracing.traces_url(named) == url
