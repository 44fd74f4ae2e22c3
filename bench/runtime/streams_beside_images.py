"""Do running streams stall while others send images? The pause between two tokens, p95.

Eight streams decode without pause; then four more clients send images without pause, each a new
one, and want one token; then the streams are alone again, round after round in the same run. The
model is `middle_llava`: its encoder, as a process of its own, is what could disturb the streams.

A step is longer the longer the answers are that it continues, so what is measured must not depend
on where in its answer a stream is: streams are an eighth of an answer apart, so phases see the same
mix of positions; `position_p50` shows how well. Phases are short and take turns, so that a machine
that becomes slower does so for both; `ratios_of_rounds` is how far one such pair is from the next.
Image clients end with an answer, not in the middle of a question: the encoder would work on what
they left behind while the streams are measured alone.

A GPU's multiprocessors are what the language model and the encoder share (bench/sharing); here it
is cores, shared as MPS would share them: the language model's process has core 0, all else (Triton,
gateway, preprocessing, encoder, and the clients themselves) has core 1. `not_pinned` is the same
with every process on both cores. The encoder's process takes one thread in both.

The clients stand for other machines, so what they do must not count as the pod's: they send
images that were made before, from a process of their own (image_clients.py), a stream's reader
costs next to nothing, and their processes come before all others (niceness -10). Gateway, server
and clients are one session, as if they were one container: where Linux schedules by sessions or
containers, niceness counts within one only.

    .venv/bin/python bench/runtime/streams_beside_images.py --rounds 4 --seconds 10

writes bench/runtime/results/streams_beside_images.json.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from image_clients import ImageClients, image_clients
from processes import below, pin
from record import RESULTS, write

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests"), str(ROOT / "bench" / "gateway")]

from stream_client import StreamClient  # noqa: E402 - another bench's

from support.build_plans import change_serving  # noqa: E402 - tests are no package
from support.middle_llava import build_middle_llava, new_image  # noqa: E402
from support.real_gateway import RealGateway, run_pair  # noqa: E402

STREAMS, IMAGE_CLIENTS = 8, 4
BATCH = STREAMS + IMAGE_CLIENTS
ANSWER_TOKENS = 400
MOST_IMAGES_A_SECOND = 4
"""More than two cores encode (2)."""

SETTLED_SECONDS = 3.0
"""Until prompts of images and the next images come in turn: the first ones come together."""

SPREAD_WITHIN_SECONDS = 120
"""Usually 12."""

SPOILED_SECONDS = 1.0
"""After the last image was answered."""

CLIENTS_NICENESS = -10
DECODER = "tensorrt_llm"


@dataclass
class Phase:
    """What clients saw while one mix of them was there."""

    gaps: list[float] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    """In the answer, of the token after each gap."""

    images: list[float] = field(default_factory=list)

    def __add__(self, other: "Phase") -> "Phase":
        """Return what was seen in either."""
        return Phase(
            self.gaps + other.gaps,
            self.positions + other.positions,
            self.images + other.images,
        )


@dataclass
class Streams:
    """Clients of text that put what they see into the phase that runs."""

    url: str
    model: str
    phase: Phase = field(default_factory=Phase)
    apart: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when every stream is an eighth of an answer from the next."""

    steps: list[int] = field(default_factory=lambda: [0] * STREAMS)
    """What each stream has behind it: tokens, and those that it missed while it waited."""

    async def stream(self, number: int) -> None:
        """Read one long answer after the other; note the pauses between tokens.

        The first one is shorter the smaller the number is: so the streams come to be apart. A new
        answer waits behind the prompts of images; what its stream misses is taken off the next
        one, or several that waited would continue side by side.
        """
        client = await StreamClient.open(self.url)
        tokens = ANSWER_TOKENS * (number + 1) // STREAMS
        while True:
            await self._answer(client, number, tokens)
            if number == STREAMS - 2:  # the last stream to come apart from the one after it
                self.apart.set()
            missed = max(self.steps) - self.steps[number]
            self.steps[number] += missed
            tokens = ANSWER_TOKENS - min(missed, ANSWER_TOKENS // 2)

    async def _answer(self, client: StreamClient, number: int, tokens: int) -> None:
        body = body_of(self.model, [{"type": "text", "text": "Hello!"}], tokens)
        last: float | None = None
        position = 0
        async for now in client.seen(body | {"stream": True}):
            if last is not None:
                self.phase.gaps.append(now - last)
                self.phase.positions.append(position)
            last = now
            position += 1
            self.steps[number] += 1


def body_of(model: str, content: list[dict[str, Any]], tokens: int) -> dict[str, Any]:
    """Return the body of a request with one message."""
    messages = [{"role": "user", "content": content}]
    return {"model": model, "messages": messages, "max_tokens": tokens, "temperature": 0}


def image_body(model: str, image: str) -> bytes:
    """Return the body of a question about the image of a data URL."""
    content: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": image}},
        {"type": "text", "text": "What is in the image?"},
    ]
    return json.dumps(body_of(model, content, 1)).encode()


@asynccontextmanager
async def running(*clients: Any) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Let clients run until the block ends; one that fails ends it."""
    tasks = [asyncio.create_task(client) for client in clients]
    try:
        yield tasks
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def measured(
    pair: RealGateway,
    images: Iterable[str],
    rounds: int,
    seconds: float,
    a_second: float | None = None,
) -> dict[str, Any]:
    """Run the phases in turn; return what was seen in all rounds together.

    Args:
        pair: what is measured.
        images: data URLs.
        rounds: of each phase.
        seconds: of a phase.
        a_second: images that are sent; None: as many as are answered.
    """
    return summary(seen(pair, images, rounds, seconds, a_second), seconds)


def seen(
    pair: RealGateway,
    images: Iterable[str],
    rounds: int,
    seconds: float,
    a_second: float | None = None,
) -> list[tuple[Phase, Phase]]:
    """Run the phases in turn; return what was seen in each round, alone and beside images."""
    bodies = [image_body(pair.model, image) for image in images]
    with image_clients(pair.url, bodies, IMAGE_CLIENTS, a_second) as clients:
        return asyncio.run(_seen(pair, clients, rounds, seconds))


async def _seen(
    pair: RealGateway, clients: ImageClients, rounds: int, seconds: float
) -> list[tuple[Phase, Phase]]:
    found: list[tuple[Phase, Phase]] = []
    streams = Streams(pair.url, pair.model)
    async with running(*(streams.stream(number) for number in range(STREAMS))):
        await asyncio.wait_for(streams.apart.wait(), SPREAD_WITHIN_SECONDS)
        for _ in range(rounds):
            alone = await phase(streams, seconds)
            clients.begin()
            await phase(streams, SETTLED_SECONDS)
            begin = time.perf_counter()
            beside = await phase(streams, seconds)
            end = time.perf_counter()
            answered = await clients.end()
            beside.images = [one.seconds for one in answered if begin <= one.at < end]
            await phase(streams, SPOILED_SECONDS)
            found.append((alone, beside))
    return found


def summary(rounds: Sequence[tuple[Phase, Phase]], seconds: float) -> dict[str, Any]:
    """Return what was seen in all rounds together, each of so many seconds."""
    alone = sum((one for one, _ in rounds), Phase())
    beside = sum((other for _, other in rounds), Phase())
    return {
        "alone": pauses(alone),
        "beside_images": pauses(beside)
        | {
            "images_per_second": round(len(beside.images) / (len(rounds) * seconds), 2),
            "image_p50_ms": round(float(np.percentile(beside.images, 50)) * 1e3, 1),
        },
        "p95_ratio": ratio(alone, beside),
        "ratios_of_rounds": [ratio(one, other) for one, other in rounds],
    }


async def phase(streams: Streams, seconds: float) -> Phase:
    """Return what clients see from now on, for so long."""
    streams.phase = Phase()
    await asyncio.sleep(seconds)
    seen, streams.phase = streams.phase, Phase()
    return seen


def ratio(alone: Phase, beside: Phase) -> float:
    """Return how many times as long a pause is beside images, at the 95th percentile."""
    return round(float(np.percentile(beside.gaps, 95) / np.percentile(alone.gaps, 95)), 3)


def pauses(phase: Phase) -> dict[str, float]:
    """Return percentiles in milliseconds, and the tokens they are of."""
    shares = {
        f"p{share}_ms": float(np.percentile(phase.gaps, share)) * 1e3 for share in (50, 95, 99)
    }
    return {"tokens": len(phase.gaps), "position_p50": float(np.median(phase.positions))} | {
        key: round(value, 2) for key, value in shares.items()
    }


def place(pair: RealGateway, decoder: set[int], others: set[int]) -> None:
    """Give the decoder's process its cores and all others, this one too, theirs."""
    for one in below(pair.server.pid) + below(pair.gateway.pid):
        pin(one.pid, decoder if one.name == DECODER else others)
    pin(os.getpid(), others)


def main() -> None:
    """Build the model, run it both ways, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10)
    chosen = parser.parse_args()
    before = os.getloadavg()[0]
    both = os.sched_getaffinity(0)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = build_middle_llava(folder, BATCH)
        change_serving(
            built.serving, gateway={"max_concurrency": BATCH, "request_timeout_seconds": 120}
        )
        os.sched_setaffinity(0, {min(both)})  # servers that see one core start one thread
        with run_pair(built, folder) as pair:
            most = int(MOST_IMAGES_A_SECOND * (chosen.seconds + SETTLED_SECONDS) * chosen.rounds)
            images = {
                way: [new_image(first + number) for number in range(most)]
                for way, first in (("pinned", 0), ("not_pinned", most))
            }
            os.setpriority(os.PRIO_PROCESS, 0, CLIENTS_NICENESS)
            for way, decoder, others in (
                ("pinned", {min(both)}, {max(both)}),
                ("not_pinned", both, both),
            ):
                place(pair, decoder, others)
                result[way] = measured(pair, images[way], chosen.rounds, chosen.seconds)
    command = f"bench/runtime/streams_beside_images.py --rounds {chosen.rounds} "
    command += f"--seconds {chosen.seconds:g}"
    write(RESULTS / "streams_beside_images.json", command, before, result)


if __name__ == "__main__":
    main()
