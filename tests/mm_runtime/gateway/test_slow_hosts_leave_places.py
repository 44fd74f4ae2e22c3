"""Requests that wait for hosts hold half of the places: the others are answered meanwhile."""

import asyncio
from pathlib import Path

import httpx

from support.eventually import eventually_async
from support.gateways import MODEL, client_of, toy_gateway
from support.http_servers import Exchange, serve_local
from support.images import data_url, encode, plain_image
from support.scripted_engine import ScriptedEngine

IMAGE = encode(plain_image())


def _body(*urls: str) -> dict[str, object]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = [{"type": "text", "text": "what is it ?"}, *images]
    return {"model": MODEL, "messages": [{"role": "user", "content": content}]}


async def test_half_of_the_places_wait_for_hosts(tmp_path: Path) -> None:
    """Of four: a third request with a URL gets 429, questions with none are answered."""
    released = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await released.wait()
        await exchange.answer(200, IMAGE)

    gateway = toy_gateway(
        tmp_path, ScriptedEngine(), max_concurrency=2, max_queue_size=2, allow_private_networks=True
    )
    async with (
        serve_local(slow) as host,
        client_of(gateway) as client,
    ):
        url = f"http://127.0.0.1:{host.port}/"

        async def query(*urls: str) -> httpx.Response:
            return await client.post("/v1/chat/completions", json=_body(*urls))

        waiting = [asyncio.create_task(query(url, url)) for _ in range(2)]
        await eventually_async(lambda: len(host.exchanges) == 4)
        refused = await query(data_url(IMAGE), url)
        text, inline = await query(), await query(data_url(IMAGE))
        page = (await client.get("/metrics")).text
        released.set()
        answered = await asyncio.gather(*waiting)
        later = await query(url)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert f'mm_requests_rejected_total{{model="{MODEL}",reason="fetches"}} 1.0' in page
    assert [one.status_code for one in (text, inline, *answered, later)] == [200] * 5
