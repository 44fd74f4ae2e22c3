"""LoRA adapters of a running pod: real server and gateway, the document by the Job's command."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import NotFoundError, OpenAI

from mm_api.documents.adapter_room import adapter_uid
from support.adapter_rooms import put_adapters, with_room
from support.eventually import eventually
from support.images import data_url
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import ADAPTERS, IMAGES, BuiltEngine, shared_engine

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

STREAMS = 2
CONTENT = [
    {"type": "text", "text": "What is in the image?"},
    {"type": "image_url", "image_url": {"url": data_url((IMAGES / "red-square.png").read_bytes())}},
]
MESSAGES: Any = [{"role": "user", "content": CONTENT}]


@pytest.fixture(name="engine", scope="module")
def engine_with_room(tmp_path_factory: pytest.TempPathFactory) -> BuiltEngine:
    """Return an engine without adapters, and a plan with room for two."""
    engine = shared_engine(tmp_path_factory)
    return with_room(engine, tmp_path_factory.mktemp("room"))


@pytest.fixture(name="pair", scope="module")
def running_pair(
    engine: BuiltEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealGateway]:
    """Run server and gateway of that engine."""
    with run_pair(engine, tmp_path_factory.mktemp("pair"), request_timeout_seconds=120) as pair:
        yield pair


def processes(pair: RealGateway) -> list[int]:
    """Return the ids of the server, of Triton and of its models."""
    found, left = [], [pair.server.pid]
    while left:
        one = left.pop()
        found.append(one)
        left += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
    return sorted(found)


def client_of(pair: RealGateway) -> OpenAI:
    """Return the official client."""
    return OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=120)


def answer(client: OpenAI, model: str) -> str | None:
    """Return what a model says of the red square."""
    made = client.chat.completions.create(model=model, messages=MESSAGES, temperature=0)
    return made.choices[0].message.content


def long_stream(client: OpenAI, model: str) -> str:
    """Return the text of a stream that only its length ends."""
    pieces: Any = client.chat.completions.create(
        model=model,
        messages=MESSAGES,
        temperature=0,
        max_tokens=80,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)


def names(pair: RealGateway) -> list[str]:
    """Return the names that the gateway lists."""
    listed = httpx.get(f"{pair.url}/v1/models", timeout=30).json()
    return [one["id"] for one in listed["data"]]


def test_adapters_come_and_go_while_streams_run(engine: BuiltEngine, pair: RealGateway) -> None:
    """A new name gives its own answer, a removed one 404; streams and processes stay."""
    client = client_of(pair)
    before = processes(pair)
    expected, stop = long_stream(client, "tiny"), threading.Event()

    def streams() -> list[str]:
        texts = []
        while not stop.is_set():
            texts.append(long_stream(client, "tiny"))
        return texts

    with pytest.raises(NotFoundError):
        answer(client, "colors")
    with ThreadPoolExecutor(STREAMS) as pool:
        running: list[Future[list[str]]] = [pool.submit(streams) for _ in range(STREAMS)]
        try:
            written = put_adapters(engine, ADAPTERS, generation=2)
            eventually(lambda: names(pair) == ["tiny", "colors"])
            during = answer(client, "colors"), answer(client, "tiny"), answer(client, "tiny:colors")
            put_adapters(engine, {}, generation=3)
            eventually(lambda: names(pair) == ["tiny"])
            with pytest.raises(NotFoundError):
                answer(client, "colors")
            eventually(
                lambda: (
                    "colors, uid" in (log := pair.server_log.read_text()) and "is removed" in log
                )
            )
        finally:
            stop.set()
        texts = [text for one in running for text in one.result(120)]

    (colors,) = written.adapters
    assert colors.uid == adapter_uid("colors", colors.source_digest)
    assert during == ("red", "a red square", "red")
    assert set(texts) == {expected}
    assert (processes(pair), pair.gateway.poll()) == (before, None)
    assert answer(client, "tiny") == "a red square"
    assert "Traceback" not in pair.server_log.read_text()
