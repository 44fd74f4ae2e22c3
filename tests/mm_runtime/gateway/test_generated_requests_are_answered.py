"""Requests made of the gateway's own `/openapi.json` are answered or refused: no 5xx of ours."""

import asyncio
import gc
import logging
import os
from collections import Counter
from pathlib import Path

import httpx
import psutil
import pytest

from support import tool_templates
from support.eventually import eventually_async
from support.gateways import MODEL, toy_gateway
from support.generated_requests import Generator
from support.images import data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine

KNOWN = {
    "model": MODEL,
    "url": data_url(encode(plain_image())),
    "prompt": "what is it ?",
    "input": "what is it ?",
    "messages": [{"role": "user", "content": "what is it ?"}],
    "response_format": {"type": "text"},
}
MANY = int(os.environ.get("MM_GENERATED_REQUESTS", "20000"))
HANGS_SECONDS = 60
LEAK_BYTES = 64 << 20


async def answered(folder: Path, count: int, seed: int) -> Counter[int]:
    """Send so many requests, half of them with free messages; return statuses by number."""
    pieces = ("Yes.<tool_call>", '{"name": "rain", "arguments": {"a": 1}}', "</tool_call>")
    engine = ScriptedEngine(pieces)
    gateway = toy_gateway(folder, engine, template=tool_templates.HERMES, max_queue_size=64)
    statuses: Counter[int] = Counter()
    before = 0
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=gateway.app), base_url="http://gateway"
        ) as client:
            document = (await client.get("/openapi.json")).json()
            free = {name: KNOWN[name] for name in ("model", "url")}
            for number, known in enumerate((KNOWN, free)):
                generator = Generator(document, known, seed + number)
                for one in generator.requests(count // 2):
                    async with asyncio.timeout(HANGS_SECONDS):
                        answer = await client.post(
                            one.path, content=one.body, headers={"content-type": one.content_type}
                        )
                    statuses[answer.status_code] += 1
                    engine.requests.clear()  # with their images
                    assert answer.status_code < 500, (one.path, one.body)
                    assert '"server_error"' not in answer.text, (one.path, one.body)
                    if answer.status_code >= 400:
                        error = answer.json()["error"]
                        assert {"message", "type", "param", "code"} == set(error), one.body
                    if statuses.total() == count // 4:
                        gc.collect()
                        before = psutil.Process().memory_info().rss
            await eventually_async(lambda: engine.running == 0)
            again = await client.post(
                "/v1/completions", json={"model": MODEL, "prompt": "x", "max_tokens": 1}
            )
            assert again.status_code == 200
    finally:
        gateway.close()
    gc.collect()
    assert psutil.Process().memory_info().rss - before < LEAK_BYTES
    return statuses


async def test_some(tmp_path: Path) -> None:
    """A few of each path; many are answered, many refused."""
    statuses = await answered(tmp_path, 700, seed=1)
    assert statuses[200] > 50 < statuses[400]
    assert set(statuses) <= {200, 400, 404, 413, 429}


@pytest.mark.adversarial
@pytest.mark.timeout(3600)
async def test_many(tmp_path: Path) -> None:
    """`MM_GENERATED_REQUESTS` of them (200,000 take eight minutes of a core)."""
    logging.disable(logging.INFO)  # pytest keeps every record
    try:
        statuses = await answered(tmp_path, MANY, seed=100)
    finally:
        logging.disable(logging.NOTSET)
    logging.getLogger(__name__).info("statuses: %s", dict(statuses))
    assert set(statuses) <= {200, 400, 404, 413, 429}
