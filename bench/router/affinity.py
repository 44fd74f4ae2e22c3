"""What content affinity is worth: chats about images, two replicas, one run.

The model is `middle_llava`, whose images take long to encode. Each chat is about an image of its
own and has three turns, which all carry it. The same chats, with new images each time, go in turn
through the router as it is, through the same router with replicas in turn (round robin), and to one
replica alone, whose hit rate is the most that can be had.

    .venv/bin/python bench/router/affinity.py --rounds 4

writes bench/router/results/affinity.json. Goals: the hit rate >= 0.9 of one replica's, the median
time to the first token <= 0.6 of round robin's.
"""

import argparse
import asyncio
import itertools
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

from mm_api.metrics import FEATURE_CACHE_LOOKUPS  # noqa: E402
from mm_router.catalog import Model  # noqa: E402
from mm_router.demand import Work  # noqa: E402
from mm_router.fleet import Fleet, ReplicasKey, Visit  # noqa: E402
from support.build_plans import change_serving  # noqa: E402 - tests are no package
from support.middle_llava import build_middle_llava, new_image  # noqa: E402
from support.real_gateway import RealGateway, run_pair  # noqa: E402
from support.routers import RunningRouter, route  # noqa: E402
from support.tiny_llava import engine_in  # noqa: E402

RESULTS = Path(__file__).parent / "results"
BATCH, USERS, TURNS = 4, 3, 3
"""An odd number of users: of an even one each would meet the same of two replicas in turn."""
CACHE_BYTES = 64 << 20
ROUTED, SPREAD, ONE = "router", "round_robin", "one_replica"


@dataclass
class Measured:
    """What one way of sending came to."""

    first_token_seconds: list[float] = field(default_factory=list)
    hits: float = 0
    lookups: float = 0

    def shown(self) -> dict[str, float]:
        """Return it as numbers with units."""
        seconds = sorted(self.first_token_seconds)
        return {
            "requests": len(seconds),
            "hit_rate": round(self.hits / self.lookups, 3),
            "first_token_p50_ms": round(statistics.median(seconds) * 1e3, 1),
            "first_token_p90_ms": round(seconds[int(0.9 * len(seconds))] * 1e3, 1),
        }


async def chat(client: httpx.AsyncClient, url: str, model: str, image: str) -> list[float]:
    """Have a chat of three turns; return the time to each first token."""
    first = [
        {"type": "image_url", "image_url": {"url": image}},
        {"type": "text", "text": "What is in the image?"},
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": first}]
    times = []
    for _ in range(TURNS):
        body = {
            "model": model,
            "messages": messages,
            "max_tokens": 4,
            "temperature": 0,
            "stream": True,
        }
        begin, found, text = time.perf_counter(), None, ""
        async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if '"delta":{"content"' in line:
                    found = found or time.perf_counter() - begin
                    event = json.loads(line.removeprefix("data: "))
                    text += event["choices"][0]["delta"]["content"] or ""
        assert found is not None
        times.append(found)
        messages += [
            {"role": "assistant", "content": text or "-"},
            {"role": "user", "content": "And what else?"},
        ]
    return times


async def block(url: str, model: str, images: list[str]) -> list[float]:
    """Have a chat about each image, some at a time."""
    waiting = list(images)
    times: list[float] = []

    async def user(client: httpx.AsyncClient) -> None:
        while waiting:
            times.extend(await chat(client, url, model, waiting.pop()))

    async with httpx.AsyncClient(timeout=240) as client, asyncio.TaskGroup() as group:
        for _ in range(USERS):
            group.create_task(user(client))
    return times


def lookups(pairs: list[RealGateway]) -> dict[str, float]:
    """Return the lookups in the feature caches of all replicas, by result."""
    found: dict[str, float] = {}
    for pair in pairs:
        for family in text_string_to_metric_families(pair.triton_metrics()):
            for sample in family.samples:
                if sample.name == FEATURE_CACHE_LOOKUPS.name:
                    result = sample.labels["result"]
                    found[result] = found.get(result, 0) + sample.value
    return found


@asynccontextmanager
async def ways(pairs: list[RealGateway]) -> AsyncIterator[dict[str, RunningRouter]]:
    """Run the three routers."""
    model = Model("bench", pairs[0].model)
    addresses = [pair.url.removeprefix("http://") for pair in pairs]
    async with AsyncExitStack() as stack:
        running = {
            name: await stack.enter_async_context(route({model: to}))
            for name, to in ((ROUTED, addresses), (SPREAD, addresses), (ONE, addresses[:1]))
        }
        fleet, turns = running[SPREAD].router.fleet, itertools.cycle(addresses)

        def in_turn(
            model: ReplicasKey, _: bytes | None, work: Work, *, tried: Collection[str] = ()
        ) -> Visit | None:
            others = {*addresses} - {next(turns)}
            return Fleet.choose(fleet, model, None, work, tried={*tried, *others})

        fleet.choose = in_turn  # type: ignore[method-assign, assignment]
        yield running


async def measure(pairs: list[RealGateway], rounds: int, chats: int) -> dict[str, Measured]:
    """Take turns between the three ways; images are new in each round of each."""
    measured = {name: Measured() for name in (ROUTED, SPREAD, ONE)}
    number = 1_000
    async with ways(pairs) as running:
        for pair in pairs:  # warm
            await block(pair.url, pair.model, [new_image(number := number + 1) for _ in range(2)])
        for turn in range(rounds):
            names = list(measured)
            for name in names[turn % 3 :] + names[: turn % 3]:
                images = [new_image(number := number + 1) for _ in range(chats)]
                before = await asyncio.to_thread(lookups, pairs)
                times = await block(running[name].url, pairs[0].model, images)
                after = await asyncio.to_thread(lookups, pairs)
                one = measured[name]
                one.first_token_seconds += times
                one.hits += after["hits"] - before.get("hits", 0)
                one.lookups += sum(after.values()) - sum(before.values())
    return measured


def main() -> None:
    """Build the model, run two replicas, measure, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--chats", type=int, default=8, help="of each round and way")
    parser.add_argument("--engine", type=Path, help="where a build is kept, or is made")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        kept = options.engine or folder
        built = engine_in(kept) if (kept / "store").is_dir() else build_middle_llava(kept, BATCH)
        change_serving(
            built.serving,
            gateway={"max_concurrency": BATCH, "request_timeout_seconds": 240},
            feature_cache_bytes=CACHE_BYTES,
        )
        pairs = []
        for replica in "ab":
            (folder / replica).mkdir()
            pairs.append(stack.enter_context(run_pair(built, folder / replica)))
        measured = asyncio.run(measure(pairs, options.rounds, options.chats))
    shown = {name: one.shown() for name, one in measured.items()}
    result = {
        "command": f"bench/router/affinity.py --rounds {options.rounds} --chats {options.chats}",
        "machine": {
            "cores": os.cpu_count(),
            "load_before": round(load, 1),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "users": USERS,
        "turns": TURNS,
        **shown,
        "hit_rate_of_one_replicas": round(shown[ROUTED]["hit_rate"] / shown[ONE]["hit_rate"], 3),
        "first_token_p50_of_round_robins": round(
            shown[ROUTED]["first_token_p50_ms"] / shown[SPREAD]["first_token_p50_ms"], 3
        ),
    }
    text = json.dumps(result, indent=1)
    (RESULTS / "affinity.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
