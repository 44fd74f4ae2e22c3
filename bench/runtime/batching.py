"""How much more does a pod answer when sixteen query at once? Tokens a second against one client.

The tiny model, engine for sixteen requests at once. Closed loop: every client queries again when it
was answered. Five ways in turn, one and sixteen clients, round after round in the same run:

engine     the Reference engine called in this process: what continuous batching itself is worth
complete      through Triton's gRPC, the answer in one response
streamed   the same, a response for the tokens of a step or several
sse        `POST /v1/chat/completions`, an event for each response
gateway    the same with an image, an answer of three tokens in one response: what requests cost

All but the last generate 96 tokens: past every end token, which the gateway cannot be requested, so
that the model's is made unlikely (its row of the output matrix is zero). The load comes from the
same two cores.

    .venv/bin/python bench/runtime/batching.py --rounds 3 --seconds 8

writes bench/runtime/results/batching.json.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import httpx
from record import RESULTS, write

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests"), str(ROOT / "bench" / "gateway")]

from in_process import InProcess  # noqa: E402 - benches are no package

from mm_api.documents.serving_plan import ServingPlan  # noqa: E402 - ruff sorts it last
from support.build_plans import change_serving  # noqa: E402 - tests are no package
from support.ensemble import Ensemble  # noqa: E402
from support.images import data_url  # noqa: E402
from support.real_gateway import RealGateway, run_pair  # noqa: E402
from support.tiny_llava import (  # noqa: E402
    CHECKPOINT,
    END_ID,
    FEATURES_PER_IMAGE,
    IMAGES,
    build_engine,
)

MOST = 16
IMAGE_COUNT = 2
TOKENS = 96
SHORT = 3
"""Tokens of an answer about the image."""

IMAGE = IMAGES / "red-square.png"
QUESTION = "What is in the image?"
MakeRequest = Callable[[], int]
"""Queries once and returns the tokens of the answer."""


def ways(pair: RealGateway, model: InProcess) -> dict[str, Callable[[], MakeRequest]]:
    """Return, for each way, what makes a client of it."""

    def engine() -> MakeRequest:
        return lambda: len(model.query(IMAGE, QUESTION, TOKENS, endless=True))

    def triton(*, stream: bool) -> MakeRequest:
        client = Ensemble(pair.triton_grpc)

        def query() -> int:
            client.query("Hello!", end_id=-1, max_tokens=TOKENS, stream=stream)
            return TOKENS

        return query

    def gateway() -> MakeRequest:
        client = httpx.Client(base_url=pair.url, timeout=60)
        parts = [
            {"type": "image_url", "image_url": {"url": data_url(IMAGE.read_bytes())}},
            {"type": "text", "text": QUESTION},
        ]
        body = {
            "model": pair.model,
            "messages": [{"role": "user", "content": parts}],
            "max_tokens": SHORT,
            "temperature": 0,
        }

        def query() -> int:
            answer = client.post("/v1/chat/completions", json=body).raise_for_status().json()
            return int(answer["usage"]["completion_tokens"])

        return query

    def sse() -> MakeRequest:
        client = HTTPConnection(pair.url.removeprefix("http://"), timeout=60)
        body = {
            "model": pair.model,
            "messages": [{"role": "user", "content": "Hello!"}],
            "max_tokens": TOKENS,
            "temperature": 0,
            "stream": True,
        }
        written = json.dumps(body)

        def query() -> int:
            # Bytes and no objects: a client that reads them costs as much as the gateway. An event
            # may hold several tokens; none of them ends the answer.
            client.request(
                "POST", "/v1/chat/completions", written, {"content-type": "application/json"}
            )
            response = client.getresponse()
            while response.read1():
                pass
            return TOKENS

        return query

    return {
        "engine": engine,
        "at_once": lambda: triton(stream=False),
        "streamed": lambda: triton(stream=True),
        "sse": sse,
        "gateway": gateway,
    }


def tokens_per_second(clients: list[MakeRequest], seconds: float) -> float:
    """Let every client query again and again; return tokens a second of all together."""
    done = [0] * len(clients)
    begin = time.perf_counter()

    def work(number: int) -> None:
        while time.perf_counter() - begin < seconds:
            done[number] += clients[number]()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 120)
    return sum(done) / (time.perf_counter() - begin)


def measure(
    pair: RealGateway, model: InProcess, rounds: int, seconds: float
) -> dict[str, dict[str, float]]:
    """Return medians over the rounds."""
    found: dict[tuple[str, int], list[float]] = {}
    clients = {way: [make() for _ in range(MOST)] for way, make in ways(pair, model).items()}
    for several in clients.values():
        several[0]()
    for _ in range(rounds):
        for way, several in clients.items():
            for count in (1, MOST):
                rate = tokens_per_second(several[:count], seconds)
                found.setdefault((way, count), []).append(rate)
    result = {}
    for way in clients:
        one, many = (statistics.median(found[way, count]) for count in (1, MOST))
        result[way] = {
            "one_client": round(one, 1),
            "sixteen_clients": round(many, 1),
            "ratio": round(many / one, 2),
        }
    return result


def write_endless(directory: Path) -> Path:
    """Write the tiny model with an end token that is never the likeliest."""
    from safetensors.torch import load_file, save_file  # noqa: PLC0415 - seconds for torch

    shutil.copytree(CHECKPOINT, directory)
    for file in directory.glob("*.safetensors"):
        tensors = load_file(file)
        for name in tensors:
            if name.endswith("lm_head.weight"):
                tensors[name][END_ID] = 0
        save_file(tensors, file, {"format": "pt"})
    return directory


def main() -> None:
    """Build the engine, query it in every way, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    chosen = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        limits = {
            "max_batch_size": MOST,
            "max_multimodal_len": MOST * IMAGE_COUNT * FEATURES_PER_IMAGE,
        }
        built = build_engine(folder, write_endless(folder / "checkpoint"), **limits)
        change_serving(built.serving, gateway={"max_concurrency": MOST})
        model = InProcess(built.directory, ServingPlan.from_json(built.serving.read_bytes()))
        try:
            with run_pair(built, folder) as pair:
                result = measure(pair, model, chosen.rounds, chosen.seconds)
        finally:
            model.close()
    command = f"bench/runtime/batching.py --rounds {chosen.rounds} --seconds {chosen.seconds:g}"
    write(RESULTS / "batching.json", command, before, {"tokens_per_second": result})


if __name__ == "__main__":
    main()
