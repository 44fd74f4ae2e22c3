"""The load of llm-d's guide to multimodal serving, by round robin, by their rule and by ours.

Eight replicas of Qwen3-VL-32B, requests of three images of 1280 x 720 and 1,300 tokens of text with
answers of 300 tokens, 600 groups of five prompts, 5 to 40 requests a second in turn: guides/
multimodal-serving/aggregation/README.md of llm-d/llm-d at 0f53696, which also has what they
measured (`PUBLISHED`). The router's own code reads each request and chooses its replica; replicas
are simulated (`engines`). Two loads are of our making: in `once` every image is seen once, in sizes
from a thumbnail to 4K, between texts; in `popular` three of ten requests are about the same images.

    .venv/bin/python bench/router/llmd_guide.py

writes bench/router/results/llmd_guide.json in a minute; the same seeds give the same numbers.
"""

import base64
import itertools
import json
import math
import random
import statistics
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Protocol

from engines import QWEN3_VL_32B, Costs, Engine, Request
from llmd_rule import LlmdRule

from mm_router.demand import ModelSize, demand_of
from mm_router.fleet import Fleet
from mm_router.hold import HoldLimits, Holds
from mm_router.metrics import RouterMetrics
from mm_router.reading import affinity_of

RESULT = Path(__file__).parent / "results" / "llmd_guide.json"
REPLICAS, SEEDS = 8, range(61, 66)
"""Seeds 0 and 1 were looked at while the rule was changed."""
RATES, STAGE_SECONDS = (5, 10, 15, 20, 25, 30, 35, 40), 60.0
"""Before them 20 a second for 120 s, as their other guide's warm-up; of it nothing is shown. The
guide states no length. With 60 s its Service's p50 and p90 at 40 are those of a queue that
grows by what exceeds its 25 requests a second, and its throughput that of the time until the last
answer."""
GROUPS, PROMPTS, IMAGES = 600, 5, 3
TEXT, QUESTION, ANSWER = 1300, 1200, 300
"""Tokens. A prompt's best match is 70 % (their values file): the images and 100 of text."""
PIXELS_PER_TOKEN = 1024
"""Of Qwen3-VL: 32 x 32."""
MODEL = ("bench", "model")


class Rule(Protocol):
    """Which replica gets a request."""

    def choose(self, request: Request) -> int: ...

    def first_token(self, request: Request) -> None: ...


class RoundRobin:
    """Replicas in turn, as the guide's Service."""

    def __init__(self) -> None:
        self._turns = itertools.cycle(range(REPLICAS))

    def choose(self, _request: Request) -> int:
        return next(self._turns)

    def first_token(self, _request: Request) -> None: ...


class OurRouter:
    """The router's own reading and placement; `size` says what tokens of images are worth."""

    def __init__(self, size: ModelSize) -> None:
        metrics = RouterMetrics()
        holds = Holds(HoldLimits(0, 0, 0.0), metrics, lambda: 0.0)
        self._fleet = Fleet(metrics, holds, lambda: 0.0)
        self._fleet.set_replicas(MODEL, [str(number) for number in range(REPLICAS)])
        self._size = size

    def choose(self, request: Request) -> int:
        request.visit = self._fleet.choose(MODEL, request.key, request.demand.work(self._size))
        assert request.visit is not None
        return int(request.visit.replica)

    def first_token(self, request: Request) -> None:
        assert request.visit is not None
        request.visit.prompt_done()


def image_url(name: str, width: int, height: int) -> str:
    """Return a data URL of which the router reads the header only; the name makes it another."""
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)
    return f"data:image/png;base64,{base64.b64encode(head + name.encode()).decode()}"


def request_of(
    at: float, prefix: str, prompt: str, images: Iterable[tuple[int, int]], texts: tuple[int, int]
) -> Request:
    """Return a request as the router reads it; `texts`: tokens beside the images and after."""
    sizes = list(images)
    content: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": image_url(f"{prefix}-{number}", *size)}}
        for number, size in enumerate(sizes)
    ]
    content += [{"type": "text", "text": "word" * sum(texts)}]
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": ANSWER}
    tokens = sum(math.ceil(w * h / PIXELS_PER_TOKEN) for w, h in sizes)
    key = affinity_of(body) if sizes else None
    return Request(at, prefix, prompt, tokens, *texts, ANSWER, key, demand_of(body))


def guide(seed: int) -> Iterator[tuple[int, list[Request]]]:
    """Yield each rate with its requests; prompts are shuffled once and sent in turn."""
    chance = random.Random(seed)  # noqa: S311 (repeatable, not secret)
    prompts = [(group, number) for group in range(GROUPS) for number in range(PROMPTS)]
    chance.shuffle(prompts)
    turn = itertools.cycle(prompts)
    made: dict[tuple[int, int], Request] = {}
    for stage, rate in enumerate((20, *RATES)):
        seconds = STAGE_SECONDS if stage else 2 * STAGE_SECONDS
        found = []
        for number in range(int(rate * seconds)):
            group, prompt = one = next(turn)
            if one not in made:
                sizes = [(1280, 720)] * IMAGES
                texts = (TEXT - QUESTION, QUESTION)
                made[one] = request_of(0, f"{group}", f"{group}/{prompt}", sizes, texts)
            found.append(replace(made[one], at=number / rate))
        yield rate if stage else 0, found


SIZES = ((320, 240), (1280, 720), (1920, 1080), (3840, 2160))


def once(seed: int) -> Iterator[tuple[int, list[Request]]]:
    """Yield rates of Poisson arrivals, half of them texts; nothing is sent twice."""
    chance = random.Random(seed)  # noqa: S311 (repeatable, not secret)
    for rate in (10, 15, 20, 25):
        found: list[Request] = []
        for at in _poisson(chance, rate):
            name = f"{rate}/{len(found)}"
            images = [chance.choice(SIZES)] if chance.random() < 0.5 else []  # noqa: PLR2004
            texts = (100, chance.randrange(50, 3000))
            found.append(request_of(at, name, f"{name}/", images, texts))
        yield rate, found


def popular(seed: int) -> Iterator[tuple[int, list[Request]]]:
    """Yield rates of Poisson arrivals; 30 % are about one of 600 groups."""
    chance = random.Random(seed)  # noqa: S311 (repeatable, not secret)
    for rate in (10, 20, 25, 30):
        found: list[Request] = []
        for at in _poisson(chance, rate):
            group = "0" if chance.random() < 0.3 else f"{chance.randrange(GROUPS)}"  # noqa: PLR2004
            texts = (100, chance.randrange(50, 1500))
            name = f"{rate}/{len(found)}"
            found.append(request_of(at, group, name, [(1280, 720)] * IMAGES, texts))
        yield rate, found


def _poisson(chance: random.Random, rate: int) -> Iterator[float]:
    at = chance.expovariate(rate)
    while at < 2 * STAGE_SECONDS:
        yield at
        at += chance.expovariate(rate)


def run(rule: Rule, stages: Iterable[tuple[int, list[Request]]], costs: Costs) -> dict[int, Any]:
    """Return the figures of each rate; a stage begins when the one before is answered."""
    engines = [Engine(costs) for _ in range(REPLICAS)]
    shown = {}
    for rate, requests in stages:
        _stage(rule, engines, requests)
        shown[rate] = figures(requests)
    return shown


def _stage(rule: Rule, engines: list[Engine], requests: list[Request]) -> None:
    numbers = itertools.count()
    events: list[tuple[float, int, int, Request | None]] = []
    for one in requests:
        heappush(events, (one.at, next(numbers), -1, one))
    while events:
        now, _, replica, request = heappop(events)
        if request is not None:
            replica = request.replica = rule.choose(request)
            engines[replica].waiting.append(request)
            if engines[replica].is_busy:
                continue
        else:
            first, done = engines[replica].end(now)
            for one in first:
                rule.first_token(one)
            for one in done:
                if one.visit is not None:
                    one.visit.end()
        seconds = engines[replica].start()
        if seconds is not None:
            heappush(events, (now + seconds, next(numbers), replica, None))


def figures(requests: list[Request]) -> dict[str, float]:
    waits = sorted(one.first_token - one.at for one in requests)
    texts = sorted(one.first_token - one.at for one in requests if not one.image_tokens)
    shown = {
        "output_tokens_per_second": sum(one.output for one in requests)
        / max(one.ended for one in requests),
        "first_token_p50": statistics.median(waits),
        "first_token_p90": waits[int(0.9 * len(waits))],
        "first_token_p99": waits[int(0.99 * len(waits))],
    }
    return shown | ({"text_first_token_p90": texts[int(0.9 * len(texts))]} if texts else {})


def priced(costs: Costs) -> ModelSize:
    """Return what the router makes of `mm_work_seconds` of such a replica, which reuses KV."""
    price = round(1 + costs.image_token / costs.text_token, 2)
    return ModelSize(image_price=price, kept_price=price)


RULES: dict[str, Callable[[int], Rule]] = {
    "round_robin": lambda _: RoundRobin(),
    "llm_d": lambda seed: LlmdRule(REPLICAS, QWEN3_VL_32B.cached_tokens // 16, seed),
    "ours_before": lambda _: OurRouter(ModelSize()),
    "ours_equal_prices": lambda _: OurRouter(ModelSize(kept_price=1.0)),
    "ours": lambda _: OurRouter(priced(QWEN3_VL_32B)),
}
"""`ours_before`: a token of an image is one of text, and affinity is bounded by the mean only;
`ours_equal_prices`: affinity by what reading the images again would cost, at the price of text."""

PUBLISHED = {
    "service": {
        "output": (1408, 2794, 4241, 5535, 6782, 7307, 7272, 7712),
        "p50": (0.401, 0.425, 0.420, 0.501, 0.849, 1.777, 11.060, 19.245),
        "p90": (0.487, 0.676, 0.788, 1.358, 2.330, 7.792, 21.192, 39.813),
    },
    "llm_d": {
        "output": (1421, 2836, 4259, 5634, 7046, 8444, 9782, 11128),
        "p50": (0.133, 0.078, 0.079, 0.080, 0.081, 0.083, 0.153, 0.155),
        "p90": (0.148, 0.147, 0.153, 0.158, 0.157, 0.225, 0.350, 0.399),
    },
}
"""Measured by them on 16 H200, by rate of `RATES`."""


def mean(runs: list[dict[int, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the means over the seeds, by rate."""
    return {
        str(rate): {
            name: round(statistics.fmean(one[rate][name] for one in runs), 3)
            for name in runs[0][rate]
        }
        for rate in runs[0]
        if rate
    }


def main() -> None:
    """Run every rule on the same requests, and write the result."""
    loads = {"guide": guide, "once": once, "popular": popular}
    result = {
        "command": "bench/router/llmd_guide.py",
        "seeds": list(SEEDS),
        "costs": QWEN3_VL_32B._asdict(),
        "image_price": priced(QWEN3_VL_32B).image_price,
        "published": PUBLISHED,
        **{
            name: {
                rule: mean([run(make(seed), load(seed), QWEN3_VL_32B) for seed in SEEDS])
                for rule, make in RULES.items()
            }
            for name, load in loads.items()
        },
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for name in loads:
        for rule, rates in result[name].items():  # type: ignore[attr-defined]
            shown = (
                f"{rate}: {one['output_tokens_per_second']:.0f} "
                f"{one['first_token_p50']:.2f} {one['first_token_p90']:.2f} "
                f"{one['first_token_p99']:.2f}"
                for rate, one in rates.items()
            )
            print(f"{name:8} {rule:18}", "; ".join(shown))


if __name__ == "__main__":
    main()
