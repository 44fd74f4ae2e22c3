"""A killed server costs the requests it had; the gateway tells them, waits, and goes on."""

import asyncio
from pathlib import Path

import httpx
import pytest

from support.ended import leaving_nothing
from support.eventually import eventually
from support.pictures import data_url
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import BuiltEngine, samples

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]


def _body(pair: RealGateway, **changes: object) -> dict[str, object]:
    sample = samples()[0]
    image = {"type": "image_url", "image_url": {"url": data_url(sample.picture.read_bytes())}}
    content = [image, {"type": "text", "text": sample.question}]
    return {"model": pair.model, "messages": [{"role": "user", "content": content}], **changes}


async def test_readiness_follows_triton_and_requests_are_told(
    tiny_engine: BuiltEngine, tmp_path: Path
) -> None:
    """Unready and 503 while Triton is away, alive all the time, ready again by itself."""
    with run_pair(tiny_engine, tmp_path) as pair, leaving_nothing(pair.server.pid):
        async with httpx.AsyncClient(base_url=pair.url, timeout=60) as client:
            assert (await client.post("/v1/chat/completions", json=_body(pair))).status_code == 200
            pair.server.kill()
            await asyncio.to_thread(pair.server.wait, 60)

            async def ready() -> bool:
                return (await client.get("/readyz")).status_code == httpx.codes.OK

            async def away() -> bool:
                return not await ready()

            await eventually(away)
            refused = await client.post("/v1/chat/completions", json=_body(pair))
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.json()["error"]["code"] == "engine_unavailable"
            assert (await client.get("/healthz")).status_code == 200
            pair.restart_server()
            await eventually(ready, seconds=120, pause=0.2)
            assert (await client.post("/v1/chat/completions", json=_body(pair))).status_code == 200
