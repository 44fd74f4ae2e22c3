"""NVILA on backend PyTorch: images are counted as trtllm-serve cuts them, messages are one."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from PIL import Image

from mm_api.documents.engine_manifest import CHECKPOINT_FOLDER, EngineManifest
from mm_runtime.backends.openai_server.client import OpenAiServerEngine
from mm_runtime.backends.pytorch.client import TrtllmServeDialect
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.ended import EndedProcessor
from support.gateways import MODEL, client_of, toy_gateway, toy_manifest
from support.images import data_url, encode, plain_image
from support.model_configs import facts_of, planned
from support.recorded_server import RecordedServer, recorded_server

FAMILY = "nvila"
SECONDS = 60
TEMPLATE = "{% for message in messages %}<s> {{ message['content'] }} {% endfor %}ASSISTANT:"
ORDER = {"type": "text", "text": "order: none"}


def manifest() -> EngineManifest:
    """Return the toy model's, its images tiles of 4 x 4 patches of which 3 x 3 are a feature."""
    toy = toy_manifest()
    facts, vision = toy.plan.facts, facts_of(FAMILY).vision
    assert vision is not None
    sizes = {"image_size": 56, "features_per_image": 4, "merge_size": 3}
    tiles = {"min_tiles": 1, "max_tiles": 13, "scales": None}
    facts = facts.model_copy(
        update={"family": FAMILY, "vision": vision.model_copy(update=sizes | tiles)}
    )
    engine = toy.plan.engine.model_copy(update={"family": FAMILY, "backend": "PyTorch"})
    plan = toy.plan.model_copy(update={"facts": facts, "engine": engine})
    return toy.model_copy(update={"plan": plan})


@pytest.fixture
def server(tmp_path: Path) -> "AsyncIterator[RecordedServer]":
    with recorded_server(tmp_path / "recorded") as server:
        yield server


@pytest.fixture
async def client(tmp_path: Path, server: RecordedServer) -> AsyncIterator[httpx.AsyncClient]:
    plan = planned(FAMILY, {"backend": "PyTorch"}, version="1.1.0").serve
    (tmp_path / CHECKPOINT_FOLDER).symlink_to(tmp_path / "processor")
    engine = OpenAiServerEngine(server.address, TrtllmServeDialect(MODEL), request_seconds=SECONDS)
    gateway = toy_gateway(
        tmp_path, engine, template=TEMPLATE, trtllm_serve=plan, manifest=manifest()
    )
    async with client_of(gateway) as client:
        yield client
    await engine.close()


async def send(client: httpx.AsyncClient, *messages: object, **fields: object) -> httpx.Response:
    body = {"model": MODEL, "messages": list(messages), **fields}
    return await client.post("/v1/chat/completions", json=body)


async def test_requests_reach_the_server_and_count(
    client: httpx.AsyncClient, server: RecordedServer
) -> None:
    """300 x 200 are 3 x 2 tiles and a view: 7 x (4 + 1) tokens; the pixels are not reduced."""
    url = data_url(encode(plain_image((300, 200))))
    image = {"type": "image_url", "image_url": {"url": url}}
    plain = (await send(client, {"role": "user", "content": [ORDER]})).json()
    seen = (await send(client, {"role": "user", "content": [image, ORDER]})).json()

    assert seen["choices"][0]["message"]["content"] == "A recorded answer about 1 images."
    assert server.requested[-1]["images"] == [[300, 200]]
    assert seen["usage"]["prompt_tokens"] - plain["usage"]["prompt_tokens"] == 35
    before = len(server.requested)
    for messages, fields in (
        ([{"role": "system", "content": "be short"}, {"role": "user", "content": "?"}], {}),
        ([{"role": "assistant", "content": "?"}], {}),
        ([{"role": "user", "content": "?"}] * 2, {}),
    ):
        refused = await send(client, *messages, **fields)
        error = refused.json()["error"]
        assert (refused.status_code, error["param"]) == (400, "messages"), error
        assert "one message of the role `user`" in error["message"]
    tools = [{"type": "function", "function": {"name": "wind"}}]
    refused = await send(client, {"role": "user", "content": "?"}, tools=tools)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tools")
    assert len(server.requested) == before


def test_scales_are_counted() -> None:
    """Nine tiles of a square at the least, twelve of 4 : 3, each of 256; one newline."""
    vision = facts_of(FAMILY).vision
    assert vision is not None
    processor = EndedProcessor(vision)

    assert processor.rows_of([(448, 448), (300, 400), (400, 300)]) == (2305, 3073, 3073)
    assert processor.fixed_rows is None


def test_what_only_the_server_does_is_refused() -> None:
    """No encoder here reads such tiles, and their number is the server's."""
    vision = facts_of(FAMILY).vision
    assert vision is not None
    processor = EndedProcessor(vision)
    with pytest.raises(NotImplementedError):
        processor.prepare([Image.new("RGB", (8, 8))])
    with pytest.raises(RequestError, match="trtllm-serve decides"):
        processor.with_detail("low", 1)
    with pytest.raises(RequestError, match="no video"):
        processor.video_rows(2, (8, 8))
