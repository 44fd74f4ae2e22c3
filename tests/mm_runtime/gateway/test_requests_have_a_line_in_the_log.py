"""Requests have one line in the log, and nothing that users sent is in it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_runtime.gateway import main
from mm_runtime.gateway.errors import EngineFailedError
from mm_runtime.gateway.wiring import Gateway
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, client_of, serve, toy_gateway
from support.images import data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine

SECONDS = 60
CHAT: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
IMAGE = {"type": "image_url", "image_url": {"url": data_url(encode(plain_image()))}}
AUTHORIZATION = {"authorization": "Bearer sk-a"}
NOTHING = {
    "queue_seconds": None,
    "first_token_seconds": None,
    "images": 0,
    "prompt_tokens": 0,
    "output_tokens": 0,
    "model": None,
}


class Log:
    """The lines that the gateway's program writes to its standard output."""

    def __init__(self, output: pytest.CaptureFixture[str]) -> None:
        self._output = output
        self._lines: list[dict[str, Any]] = []

    def lines(self) -> list[dict[str, Any]]:
        self._lines += map(json.loads, self._output.readouterr().out.splitlines())
        return [line for line in self._lines if line["message"] == "request"]

    async def all_of(self, count: int) -> list[dict[str, Any]]:
        """Return the lines when there are so many; the last one comes after its answer."""
        await eventually_async(lambda: len(self.lines()) >= count)
        return self.lines()


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Log:
    return Log(capsys)


@asynccontextmanager
async def sending(
    gateway: Gateway, headers: dict[str, str] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Send requests to a gateway whose log is as its program sets it up."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    main._set_up_logging()
    try:
        async with (
            serve(gateway) as running,
            httpx.AsyncClient(base_url=running.url, timeout=SECONDS, headers=headers) as client,
        ):
            yield client
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


async def test_an_answer_has_its_times_and_counts(tmp_path: Path, log: Log) -> None:
    """What runbooks send people to the log for."""
    (tmp_path / "tokens").write_text("alice: sk-a\n")
    gateway = toy_gateway(
        tmp_path / "engine", ScriptedEngine(), auth_token_file=tmp_path / "tokens"
    )
    content = [{"type": "text", "text": "hello"}, IMAGE]
    body = {**CHAT, "messages": [{"role": "user", "content": content}]}
    async with sending(gateway, headers=AUTHORIZATION) as client:
        answer = await client.post("/v1/chat/completions?x=1", json=body)
        [line] = await log.all_of(1)
    usage = answer.json()["usage"]
    times = [line.pop(name) for name in ("seconds", "queue_seconds", "first_token_seconds")]
    assert all(isinstance(time, float) and 0 <= time <= times[0] for time in times)
    assert line.pop("engine_request") in answer.json()["id"]
    del line["time"]
    assert line == {
        "level": "info",
        "logger": "mm_runtime.gateway.main",
        "message": "request",
        "request": answer.headers["x-request-id"],
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "key": "alice",
        "model": MODEL,
        "images": 1,
        "prompt_tokens": usage["prompt_tokens"],
        "output_tokens": usage["completion_tokens"],
    }


@cases(
    "sent body more",
    {
        "chat": ("POST /v1/chat/completions", CHAT, {"status": 200, "output_tokens": 3}),
        "stream": (
            "POST /v1/chat/completions",
            {**CHAT, "stream": True},
            {"status": 200, "output_tokens": 3},
        ),
        "completion": ("POST /v1/completions", {"model": MODEL, "prompt": "a"}, {"status": 200}),
        "response": ("POST /v1/responses", {"model": MODEL, "input": "a"}, {"status": 200}),
        "refused": ("POST /v1/chat/completions", {"n": -1}, {"status": 400, **NOTHING}),
        "no-model": (
            "POST /v1/chat/completions",
            {**CHAT, "model": "x"},
            {"status": 404, **NOTHING},
        ),
        "no-form": ("POST /v1/audio/transcriptions", {}, {"status": 400, **NOTHING}),
        "embeddings": ("POST /v1/embeddings", {}, {"status": 400}),
        "models": ("GET /v1/models", None, {"status": 200}),
        "document": ("GET /openapi.json", None, {"status": 200}),
        "method": ("GET /v1/chat/completions", None, {"status": 405}),
        "no-path": ("GET /v2/models", None, {"status": 404}),
    },
)
async def test_every_path_writes_a_line(
    tmp_path: Path, log: Log, sent: str, body: object, more: dict[str, object]
) -> None:
    """Answered or refused; zero is a number like any other, and null says that it never came."""
    method, path = sent.split()
    async with sending(toy_gateway(tmp_path, ScriptedEngine())) as client:
        answer = await client.request(method, path, json=body)
        [line] = await log.all_of(1)
    assert answer.status_code == more["status"]
    expected = {"method": method, "path": path, "request": answer.headers["x-request-id"], **more}
    assert {name: line[name] for name in expected} == expected
    assert isinstance(line["seconds"], float)


async def test_failures_and_refused_keys_have_their_status(tmp_path: Path, log: Log) -> None:
    """An engine that fails is a line of its own beside the one with the cause."""
    (tmp_path / "tokens").write_text("alice: sk-a\n")
    engine = ScriptedEngine(pieces=(), error=EngineFailedError("no"))
    gateway = toy_gateway(tmp_path / "engine", engine, auth_token_file=tmp_path / "tokens")
    async with sending(gateway) as client:
        for headers in ({}, AUTHORIZATION):
            await client.post("/v1/chat/completions", json=CHAT, headers=headers)
        lines = await log.all_of(2)
    assert [(line["status"], line["key"], line["model"]) for line in lines] == [
        (401, None, None),
        (500, "alice", MODEL),
    ]


async def test_a_client_that_leaves_has_a_line(tmp_path: Path, log: Log) -> None:
    """499, as nginx has it, with what was made until then."""
    engine = ScriptedEngine(gate=asyncio.Event())
    async with sending(toy_gateway(tmp_path, engine)) as client:
        body = {**CHAT, "stream": True}
        async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            async for _ in answer.aiter_lines():
                break
        [line] = await log.all_of(1)
    assert (line["status"], line["output_tokens"]) == (499, 1)


async def test_probes_have_no_line(tmp_path: Path, log: Log) -> None:
    """They come every second, and would hide what clients do."""
    async with sending(toy_gateway(tmp_path, ScriptedEngine())) as client:
        for path in ("/healthz", "/readyz", "/metrics", "/metrics/"):
            await client.get(path)
        await client.get("/v1/models")
        lines = await log.all_of(1)
    assert [line["path"] for line in lines] == ["/v1/models"]


@cases(
    "sent becomes",
    {
        "uuid": ("8b0b5f9e-6c3b-4a51-9d8e-0123456789ab", "kept"),
        "load-balancer": ("Root=1-67891233-abcdef012345678912345678", "kept"),
        "longest": ("x" * 128, "kept"),
        "too-long": ("x" * 129, "replaced"),
        "blank": ("two words", "replaced"),
        "quotation": ('"', "replaced"),
        "no-ascii": ("é".encode(), "replaced"),
        "empty": ("", "replaced"),
    },
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/nothing"])
async def test_an_id_is_kept_where_it_can_be_written(
    tmp_path: Path, log: Log, sent: str | bytes, becomes: str, path: str
) -> None:
    async with sending(toy_gateway(tmp_path, ScriptedEngine())) as client:
        answers = [
            await client.request(
                "POST" if "chat" in path else "GET", path, json=body, headers={"x-request-id": sent}
            )
            for body in (CHAT, {})
        ]
        lines = await log.all_of(2)
    returned = [answer.headers.get_list("x-request-id") for answer in answers]
    assert [[line["request"]] for line in lines] == returned
    if becomes == "kept":
        assert returned == [[sent]] * 2
    else:
        assert {len(one) for [one] in returned} == {32}
        assert len({one for [one] in returned}) == 2


async def test_equal_ids_are_two_requests_to_the_engine(tmp_path: Path) -> None:
    """A client may send its id again, at the same time: the engine has another one of each."""
    engine = ScriptedEngine()
    async with sending(toy_gateway(tmp_path, engine)) as client:
        headers = {"x-request-id": "same"}
        answers = await asyncio.gather(
            *(client.post("/v1/chat/completions", json=CHAT, headers=headers) for _ in range(2))
        )
    assert [answer.headers["x-request-id"] for answer in answers] == ["same", "same"]
    assert len({request.request_id for request in engine.requests}) == 2
    assert len({answer.json()["id"] for answer in answers}) == 2


SECRET = "hunter2"


def _image(url: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url}}


@cases(
    "part",
    {
        "text": {"type": "text", "text": SECRET},
        "part-type": {"type": SECRET},
        "url": _image(f"https://{SECRET}.invalid/x.png"),
        "media-type": _image(f"data:{SECRET};base64,AAAA"),
        "plain_image": _image(data_url(encode(plain_image()) + SECRET.encode())),
    },
)
@pytest.mark.parametrize(
    "engine",
    [ScriptedEngine(), ScriptedEngine(pieces=(), error=EngineFailedError("no"))],
    ids=["answers", "fails"],
)
async def test_neither_log_nor_metrics_hold_it(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    engine: ScriptedEngine,
    part: dict[str, object],
) -> None:
    """Every record of the log, with its extra fields and traceback, and every series."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, part]}],
        "user": SECRET,
        "metadata": {"key": SECRET},
    }
    with caplog.at_level(logging.DEBUG, logger="mm_runtime"):
        async with client_of(toy_gateway(tmp_path, engine)) as client:
            await client.post("/v1/chat/completions", json=body)
            metrics = (await client.get("/metrics")).text
    ours = [vars(record) for record in caplog.records if record.name.startswith("mm_runtime")]
    assert ours
    assert SECRET not in json.dumps(ours, default=str) + caplog.text
    assert SECRET not in metrics
