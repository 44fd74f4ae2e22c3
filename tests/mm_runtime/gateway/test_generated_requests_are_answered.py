"""Requests made of the gateway's own `/openapi.json` are answered or refused: no 5xx of ours.

Every answer is complete and of openai's types, every refusal names a part that a request may have.
"""

import asyncio
import gc
import logging
import os
import random
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.api.scores import TokenScore
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Text
from mm_runtime.gateway.wiring import Gateway
from support import tool_templates
from support.audio_gateways import FIRST_TIME, VOCABULARY, audio_gateway
from support.eventually import eventually_async
from support.gateways import toy_gateway
from support.generated_requests import Generator
from support.generated_traffic import KNOWN, OFTEN, RARE, Clients, reach_real
from support.real_gateway import RealGateway

SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("Yes.<tool_call>", '{"name": "rain", "arguments": {"a": 1}}', "</tool_call>"),
    ("a", " red", " square"),
    ("",),
    ("", "é", "", " 日本", " \0", "\n\n"),
    (
        *("<tool_call>\n", '{"name": "ra', 'in", "arg', 'uments": {}}\n</tool_', "call>"),
        *(" and ", "<tool_call>", '{"name": "b"}', "</tool_call>"),
    ),
    ("<tool_call>", '{"name": 1, "arguments": ', "[}</tool_call>", "<tool"),
    tuple(" word" for _ in range(40)),
)
"""Calls of tools that are complete, cut or none, texts, parts of characters, nothing."""

_FAR = -3.0
"""Logarithms of how likely tokens of no importance are, one a rank."""


@dataclass
class ScoringEngine:
    """Answers each choice with a script, a piece for each token: the same request with the same.

    Attributes:
        scripts: of which one is chosen by what a request says.
        running: requests that are being answered now.
    """

    scripts: Sequence[tuple[str, ...]] = SCRIPTS
    running: int = 0

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        """Answer from a script; never more tokens than were requested."""
        self.running += 1
        chosen = _chosen(request)
        try:
            await asyncio.sleep(0)
            pieces = self.scripts[chosen % len(self.scripts)][: request.max_tokens]
            timed = request.spectrogram is not None
            said = _timed(chosen)[: request.max_tokens] if timed else ()
            if timed:
                pieces = tuple(VOCABULARY[one] for one in said)
            if not pieces:
                yield Text("", 0)
            for number, piece in enumerate(pieces):
                await asyncio.sleep(0)
                score = () if request.likeliest is None else (_score(piece, request.likeliest),)
                yield Text(piece, 1, score, ids=said[number : number + 1], cached=0)
            cut = len(pieces) == request.max_tokens
            yield Ended(FinishReason.LENGTH if cut else FinishReason.STOP, len(pieces))
        finally:
            self.running -= 1

    async def first_logits(self, request: EngineRequest) -> NDArray[np.float32]:
        logits = np.zeros(len(VOCABULARY), dtype=np.float32)
        logits[_chosen(request) % len(VOCABULARY)] = 1
        return logits

    async def is_ready(self) -> bool:
        return True


def _chosen(request: EngineRequest) -> int:
    choice = request.request_id.partition("-")[2]
    said = (request.prompt, request.max_tokens, request.sampling.temperature)
    return crc32(repr((said, choice)).encode())


def _timed(number: int) -> tuple[int, ...]:
    """Return the tokens of a window: with all its times, without the last, with none, nothing."""
    what, rain = VOCABULARY.index("what"), VOCABULARY.index("rain")
    begin, middle, end = FIRST_TIME, FIRST_TIME + 10, FIRST_TIME + 25
    answers = (
        (begin, what, middle, middle, rain, end),
        (begin, what, middle, middle, rain),
        (what, rain),
        (begin,),
        (),
    )
    return answers[number % len(answers)]


def _score(text: str, likeliest: int) -> TokenScore:
    others = tuple(
        TokenScore(f"{text}{place or ''}", text.encode(), _FAR * place)
        for place in range(likeliest)
    )
    return TokenScore(text, text.encode(), 0.0, others)


AT_ONCE = 4
"""Requests that are answered beside each other, in two slots."""

STRAY, TWINS = 0.05, 0.1
"""Of the requests go to the gateway that does not serve their path; of the answers that come at
once are requested as a stream, too."""

MANY = int(os.environ.get("MM_GENERATED_REQUESTS", "20000"))
SEED = int(os.environ.get("MM_GENERATED_SEED", "100"))
OF_A_REAL_PAIR = 100
"""One of so many is also sent to a real server."""

LEAK_BYTES = 64 << 20
ANSWERED, REFUSED = 0.4, 0.02
"""Of the requests to each path at the least."""


@contextmanager
def gateways(folder: Path, engine: ScoringEngine) -> Iterator[tuple[Gateway, Gateway]]:
    """Yield a gateway of a model that chats and sees, and of one that transcribes."""
    chat = toy_gateway(folder / "chat", engine, template=tool_templates.HERMES, max_queue_size=64)
    audio = audio_gateway(folder / "audio", engine, max_queue_size=64)
    try:
        yield chat, audio
    finally:
        chat.close()
        audio.close()


def client_of(gateway: Gateway) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=gateway.app)
    return httpx.AsyncClient(transport=transport, base_url="http://gateway")


async def send_all(clients: Clients, count: int, chance: random.Random) -> None:
    """Send so many requests, some beside each other; none leaks."""
    requests, before = clients.generator.requests(count), 0
    while together := [*islice(requests, AT_ONCE)]:
        async with asyncio.TaskGroup() as group:
            for one in together:
                strays, has_twin = chance.random() < STRAY, chance.random() < TWINS
                group.create_task(clients.send(one, strays=strays, has_twin=has_twin))
        if not before and clients.total >= count // 4:
            gc.collect()
            before = psutil.Process().memory_info().rss
    gc.collect()
    assert psutil.Process().memory_info().rss - before < LEAK_BYTES


async def document_of(*clients: httpx.AsyncClient) -> dict[str, Any]:
    """Return one document of all paths: each gateway has those that its model serves."""
    found = [(await client.get("/openapi.json")).json() for client in clients]
    kinds = [one["components"]["schemas"] for one in found]
    return {
        "paths": {path: one for document in found for path, one in document["paths"].items()},
        "components": {"schemas": {name: one for kind in kinds for name, one in kind.items()}},
    }


async def answered(folder: Path, count: int, seed: int) -> Clients:
    """Send so many requests to toy gateways and check each answer."""
    engine = ScoringEngine()
    with gateways(folder, engine) as (chat, audio):
        async with client_of(chat) as to_chat, client_of(audio) as to_audio:
            document = await document_of(to_chat, to_audio)
            generator = Generator(document, KNOWN, seed, RARE, OFTEN)
            clients = Clients({False: to_chat, True: to_audio}, generator)
            await send_all(clients, count, random.Random(seed))  # noqa: S311 - a test's choices
            await eventually_async(lambda: engine.running == 0)
            for gateway in (chat, audio):
                assert gateway.admission.inside == 0
    assert clients.total == count
    assert clients.twins > 0
    for path, found in clients.found.items():
        assert found[200] > ANSWERED * found.total(), (path, found)
        assert found[400] > REFUSED * found.total(), (path, found)
    return clients


async def test_some(tmp_path: Path) -> None:
    assert len((await answered(tmp_path, 350, seed=1)).found) == 5


@pytest.mark.adversarial
@pytest.mark.timeout(3600)
async def test_many(tmp_path: Path) -> None:
    logging.disable(logging.INFO)  # pytest keeps every record
    try:
        clients = await answered(tmp_path, MANY, seed=SEED)
    finally:
        logging.disable(logging.NOTSET)
    for path, found in clients.found.items():
        logging.getLogger(__name__).info("%s: %s", path, dict(found))


@pytest.mark.adversarial
@pytest.mark.triton
@pytest.mark.timeout(600)
async def test_some_reach_triton(real: RealGateway, real_http: httpx.AsyncClient) -> None:
    """A real server with a small model: it may find out late that it cannot write a form."""
    await reach_real(real_http, real.model, MANY // OF_A_REAL_PAIR, SEED)
