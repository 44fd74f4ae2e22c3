"""Gateway and server of a pod are led to the proxy by variables of their container."""

import asyncio
import queue
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mm_runtime.images.fetch import FetchPolicy
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.remote_images import Fetched, RemoteImages
from support.forward_proxy import ForwardProxy, forward_proxy
from support.gateways import MODEL, client_of, toy_gateway, toy_serving
from support.http_servers import Exchange, serve_local
from support.images import encode, plain_image
from support.scripted_engine import ScriptedEngine

IMAGE = encode(plain_image())
HOST = "images.example.com"
SECONDS = 60


@pytest.fixture
def names() -> dict[str, str]:
    return {}


@pytest.fixture
def proxy(names: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[ForwardProxy]:
    with forward_proxy(names) as running:
        monkeypatch.setenv("MM_FETCH_HTTP_PROXY", running.url)
        monkeypatch.setenv("MM_FETCH_HTTPS_PROXY", running.url)
        yield running


async def _image(exchange: Exchange) -> None:
    await exchange.answer(200, IMAGE)


async def test_of_the_gateway(tmp_path: Path, proxy: ForwardProxy, names: dict[str, str]) -> None:
    """An image that it names arrives in the engine; a refusal is the client's 400."""
    engine = ScriptedEngine()
    async with (
        serve_local(_image) as host,
        client_of(toy_gateway(tmp_path, engine)) as client,
    ):
        names[f"{HOST}:80"] = f"127.0.0.1:{host.port}"

        async def requested(url: str) -> httpx.Response:
            image = {"type": "image_url", "image_url": {"url": url}}
            content = [{"type": "text", "text": "a"}, image]
            body = {"model": MODEL, "messages": [{"role": "user", "content": content}]}
            return await client.post("/v1/chat/completions", json=body)

        answered = await requested(f"http://{HOST}/x.png")
        refused = await requested("https://refused.example/x.png")

    assert answered.status_code == 200, answered.text
    assert len(engine.requests[0].images) == 1
    assert proxy.hosts == [f"{HOST}:80"]
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "invalid_image_url"
    assert "the proxy that this model fetches images through refused" in refused.text


async def test_of_the_server(proxy: ForwardProxy, names: dict[str, str]) -> None:
    """Triton's own clients name URLs, too."""
    images = RemoteImages(FetchPolicy.of(toy_serving().gateway))
    found: queue.Queue[Fetched | Exception] = queue.Queue()
    try:
        async with serve_local(_image) as host:
            names[f"{HOST}:80"] = f"127.0.0.1:{host.port}"
            images.fetch([f"http://{HOST}/x.png"], found.put)
            assert await asyncio.to_thread(found.get, timeout=SECONDS) == {
                f"http://{HOST}/x.png": IMAGE
            }
        images.fetch(["http://metadata.google.internal/"], found.put)
        assert isinstance(await asyncio.to_thread(found.get, timeout=SECONDS), RequestError)
    finally:
        images.end()
    assert proxy.hosts == [f"{HOST}:80"]
