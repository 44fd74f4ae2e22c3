"""The simulator beside the engine it imitates: the demo's model under an open loop.

    .venv/bin/python bench/autoscaling/compare_demo.py

starts a real pod's pair (tritonserver with the Reference engine, and the gateway), fits a simulated
replica to closed loops of one to sixteen users, loads the pair with Poisson arrivals at
shares of that rate, and lets one simulated replica live through the very same requests: their
moments, prompt lengths and answer lengths. Writes `results/engine-and-simulator.json`.

Client, gateway, server and engine share the machine's cores: what they take from each other is in
the measurement and not in the simulator.
"""

import argparse
import asyncio
import json
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml
from fitting import FitError, Loop, fitted, lived, unseen

from mm_lab.loadtest import arrivals, drive
from mm_lab.loadtest.client import Client, connection
from mm_lab.loadtest.mix import Choice, Mix, Question, random_images
from mm_lab.loadtest.results import Result
from mm_lab.simulation import Request, ServiceProfile
from mm_lab.simulation.meters import Meters
from mm_lab.simulation.replica import Replica
from mm_lab.simulation.score import Targets
from mm_operator.autoscaling import LatencyMetric

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tests"))

from support.real_gateway import RealGateway, run_pair  # noqa: E402 - no package
from support.tiny_llava import CHECKPOINT, FEATURES_PER_IMAGE, build_engine  # noqa: E402 - no package

SLOTS = 4
"""`maxBatchSize` of examples/tiny-llava.yaml."""
QUEUE = 64
LIMITS = {"max_batch_size": SLOTS, "max_input_len": 320, "max_seq_len": 384}
LOADS = (0.3, 0.6, 0.8)
"""Shares of the rate at which four users are answered without a pause."""
MIX = {"images": "0:1,1:1", "words": "20:1,120:1", "max_tokens": "48"}
SHAPES = ((0, 20), (0, 120), (0, 200), (1, 20), (1, 120))
"""Images and words of the prompts that the profile is fitted to."""
USERS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Of the closed loops that it is fitted to: up to four times the slots, so that it shows which part
of a wait fills the replica."""
PERCENTILES = (0.5, 0.9, 0.95, 0.99)


class Loader:
    """Queries one gateway; every run is a fresh clock."""

    def __init__(self, url: str, model: str) -> None:
        self._url, self._model = f"{url}/v1", model
        self._images = random_images(224, seed=1)

    def mix(self, images: str, words: str, max_tokens: str) -> Mix:
        """Return what is queried."""
        return Mix(
            self._model,
            "What is in the image?",
            Choice.parse(images),
            Choice.parse(words),
            Choice.parse(max_tokens),
            image_urls=self._images,
        )

    async def users(self, mix: Mix, users: int, seconds: float) -> list[Result]:
        """Return what became of a closed loop."""
        run = drive.Run()
        async with connection(None) as session:
            client, clock = self._client(session)
            await drive.closed_loop(
                client, mix, run, users=users, seconds=seconds, seed=users, clock=clock
            )
        return run.results

    async def plan(self, requests: Sequence[tuple[float, Question]]) -> list[Result]:
        """Return what became of an open loop."""
        run = drive.Run()
        async with connection(None) as session:
            client, clock = self._client(session)
            await drive.open_loop(client, iter(requests), run, clock=clock, most_in_flight=500)
        return run.results

    def _client(self, session: object) -> tuple[Client, drive.Clock]:
        began = time.monotonic()

        def clock() -> float:
            return time.monotonic() - began

        return Client(session, self._url, timeout_seconds=60, clock=clock), clock  # type: ignore[arg-type]


async def looped(loader: Loader, seconds: float) -> list[Loop]:
    """Return what closed loops saw: one user for each shape of prompts, then more and more."""
    requested = [
        (1, loader.mix(f"{images}", f"{words}", MIX["max_tokens"])) for images, words in SHAPES
    ]
    requested += [(users, loader.mix(**MIX)) for users in USERS]
    return [_loop(users, await loader.users(mix, users, seconds)) for users, mix in requested]


def _loop(users: int, results: Sequence[Result]) -> Loop:
    answered = sorted(_answered(results), key=lambda one: one.sent)
    if len(answered) < 2 * users:
        raise FitError(
            f"{len(answered)} of {len(results)} requests of {users} users were answered in time: "
            "too few for medians; run it with more --seconds, or on a quieter machine"
        )
    return Loop(
        users,
        tuple(_content(one) for one in answered),
        len(answered) / (max(one.ended for one in answered) - answered[0].sent),
        statistics.median(one.time_to_first_token or 0.0 for one in answered),
        statistics.median(one.end_to_end for one in answered),
    )


def _content(one: Result) -> tuple[int, int, int]:
    features = one.images * FEATURES_PER_IMAGE
    return features, one.prompt_tokens - features, one.output_tokens


def _answered(results: Sequence[Result]) -> list[Result]:
    return [one for one in results if not one.error and one.due > 1.0]


def simulated(results: Sequence[Result], profile: ServiceProfile) -> dict[str, dict[str, float]]:
    """Return what one replica of a profile would have made of the requests that were answered."""
    requests = sorted(Request(one.due, *_content(one)) for one in results if not one.error)
    meters, replica = Meters(Targets(math.inf, math.inf)), Replica(profile, 0.0)
    replica.send(requests)
    end = math.ceil(requests[-1].at) + 120
    for second in range(1, end + 1):
        replica.advance(float(second), meters)
        meters.close_second(replica.inside, replica.running)
    return {
        "first_token": _percentiles(meters.first_tokens),
        "complete_request": {
            _name(share): meters.latency(LatencyMetric.REQUEST, share, end, end) or 0.0
            for share in PERCENTILES
        },
    }


def measured(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """Return what the client saw of the same requests."""
    answered = [one for one in results if not one.error]
    return {
        "first_token": _percentiles([one.time_to_first_token or 0.0 for one in answered]),
        "complete_request": _percentiles([one.end_to_end for one in answered]),
    }


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {_name(one): ordered[math.ceil(one * len(ordered)) - 1] for one in PERCENTILES}


def _name(share: float) -> str:
    return f"p{100 * share:.0f}"


def _ratios(
    predicted: dict[str, dict[str, float]], seen: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]]:
    return {
        latency: {name: round(value / seen[latency][name], 2) for name, value in by.items()}
        for latency, by in predicted.items()
    }


def _reported(loop: Loop, profile: ServiceProfile) -> dict[str, float]:
    names = ("requests_per_second", "first_token_seconds", "complete_seconds")
    again = lived(profile, loop.contents, loop.users)
    return {
        "users": loop.users,
        **dict(zip(names, loop.seen, strict=True)),
        **{f"simulated_{name}": one for name, one in zip(names, again, strict=True)},
    }


def work_seconds(pair: RealGateway) -> dict[str, float]:
    """Return the costs that the pod measured at its start."""
    with urlopen(f"{pair.url}/metrics", timeout=10) as answer:  # noqa: S310 (our own gateway)
        lines = answer.read().decode().splitlines()
    found = {}
    for line in lines:
        if line.startswith("mm_work_seconds{"):
            unit = line.split('unit="')[1].split('"')[0]
            found[unit] = float(line.rsplit(" ", 1)[1])
    return found


def requests_of(
    loader: Loader, rate: float, seconds: float, seed: int
) -> Iterator[tuple[float, Question]]:
    """Yield Poisson arrivals of the mix."""
    return loader.mix(**MIX).questions(arrivals.poisson(rate, seconds, seed), seed)


async def compared(pair: RealGateway, seconds: float) -> dict[str, Any]:
    """Return everything that was measured and predicted."""
    loader = Loader(pair.url, pair.model)
    await loader.users(loader.mix("1", "20", "8"), 2, 10.0)  # every image once: features cached
    loops = await looped(loader, seconds / 6)
    profile, off = fitted(
        loops, name="the demo's tiny LLaVA as its users see it", slots=SLOTS, queue_size=QUEUE
    )
    full = _answered(await loader.users(loader.mix(**MIX), 4 * SLOTS, seconds))
    most = len(full) / (max(one.ended for one in full) - 1.0)
    engine = ServiceProfile(
        **yaml.safe_load((HERE / "results" / "demo-profile.yaml").read_text(encoding="utf-8"))
    )
    costs = work_seconds(pair)
    mean = _mean_work(full, costs)
    loads = []
    for number, share in enumerate(LOADS, start=1):
        requested = list(requests_of(loader, share * most, seconds, number))
        results = await loader.plan(requested)
        seen = measured(results)
        predicted = simulated(results, profile)
        alone = simulated(results, engine)
        loads.append(
            {
                "share_of_most": share,
                "requests_per_second": round(share * most, 2),
                "requests": len(results),
                "failed": sum(bool(one.error) for one in results),
                "send_lag_p99_seconds": sorted(one.sent - one.due for one in results)[
                    math.ceil(0.99 * len(results)) - 1
                ],
                "measured": seen,
                "predicted": predicted,
                "predicted_over_measured": _ratios(predicted, seen),
                "engine_alone_over_measured": _ratios(alone, seen),
            }
        )
    return {
        "closed_loops": [_reported(one, profile) for one in loops],
        "profile": asdict(profile),
        "profile_off_by_mean_factor": round(off, 2),
        "not_distinguished_from_noise": unseen(profile),
        "requests_per_second_of_16_users": round(most, 2),
        "work_seconds_of_the_pod": costs,
        "requests_per_second_by_work_seconds": round(1 / mean, 2) if mean else None,
        "loads": loads,
    }


def _mean_work(results: Sequence[Result], costs: dict[str, float]) -> float:
    """Return the seconds of a full replica that the pod's own costs give a request."""
    if not costs:
        return 0.0
    features = statistics.fmean(one.images * FEATURES_PER_IMAGE for one in results)
    prompt = statistics.fmean(one.prompt_tokens for one in results)
    output = statistics.fmean(one.output_tokens for one in results)
    return (
        costs["request"]
        + features * costs["image_token"]
        + (prompt - features) * costs["text_token"]
        + output * costs["output_token"]
    )


def main() -> None:
    """Run, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        engine = build_engine(folder, CHECKPOINT, **LIMITS)
        with run_pair(engine, folder, max_concurrency=SLOTS, max_queue_size=QUEUE) as pair:
            try:
                found = asyncio.run(compared(pair, options.seconds))
            except FitError as error:
                sys.exit(f"error: {error}")
    document = {
        "command": f"bench/autoscaling/compare_demo.py --seconds {options.seconds:g}",
        "machine": {
            "cores": os.cpu_count(),
            "load_before": round(before, 1),
            "load_after": round(os.getloadavg()[0], 1),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        **found,
    }
    text = json.dumps(document, indent=1)
    (HERE / "results" / "engine-and-simulator.json").write_text(text + "\n", encoding="utf-8")
    print(text)
    for reported in found["not_distinguished_from_noise"]:
        print(f"warning: {reported}", file=sys.stderr)


if __name__ == "__main__":
    main()
