"""A request has one id at the client, in the router's log and in its gateway's."""

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from mm_router.catalog import Model
from support.cases import cases
from support.eventually import eventually_async
from support.gateways import MODEL, serve, toy_gateway
from support.routers import address_of, route
from support.scripted_engine import ScriptedEngine

TOY = Model("blue", MODEL)
BODY: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}


def _lines(caplog: pytest.LogCaptureFixture, logger: str) -> list[dict[str, Any]]:
    return [one.fields for one in caplog.records if one.name == logger and hasattr(one, "fields")]


@cases(
    "sent becomes",
    {
        "sent": ({"x-request-id": "abc-1"}, "kept"),
        "unfit": ({"x-request-id": "a b"}, "replaced"),
        "none": ({}, "replaced"),
    },
)
async def test_an_id_goes_through_the_router(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: dict[str, str], becomes: str
) -> None:
    """The client's, or one that the router makes: the gateway has the same, and so the answer."""
    with caplog.at_level(logging.INFO):
        async with (
            serve(toy_gateway(tmp_path, ScriptedEngine())) as gateway,
            route({TOY: [address_of(gateway)]}) as router,
            httpx.AsyncClient(base_url=router.url, timeout=60) as client,
        ):
            answer = await client.post("/v1/chat/completions", json=BODY, headers=sent)
            loggers = ("mm_runtime.gateway.main", "mm_router.assembly")
            await eventually_async(lambda: all(_lines(caplog, one) for one in loggers))
    assert answer.status_code == 200
    [returned] = answer.headers.get_list("x-request-id")
    assert (returned == sent.get("x-request-id")) is (becomes == "kept")
    [[inner], [outer]] = [_lines(caplog, one) for one in loggers]
    assert (inner["request"], inner["status"]) == (returned, 200)
    assert {**outer, "seconds": 0} == {
        "request": returned,
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "seconds": 0,
        "model": "blue/toy",
    }


@cases(
    "path body status",
    {
        "no-replica": ("/v1/chat/completions", BODY, 503),
        "no-model": ("/v1/chat/completions", {**BODY, "model": "x"}, 404),
        "no-path": ("/nothing", {}, 404),
    },
)
async def test_what_the_router_refuses_has_an_id(
    caplog: pytest.LogCaptureFixture, path: str, body: dict[str, Any], status: int
) -> None:
    with caplog.at_level(logging.INFO):
        async with (
            route({TOY: []}) as router,
            httpx.AsyncClient(base_url=router.url, timeout=60) as client,
        ):
            answer = await client.post(path, json=body, headers={"x-request-id": "abc-1"})
            await eventually_async(lambda: len(_lines(caplog, "mm_router.assembly")) == 1)
    assert (answer.status_code, answer.headers["x-request-id"]) == (status, "abc-1")
    [line] = _lines(caplog, "mm_router.assembly")
    assert (line["request"], line["status"]) == ("abc-1", status)
