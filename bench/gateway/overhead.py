"""What gateway and Triton add to the model itself: time to first token, and time per token.

One image and question, sent in turn in process, through Triton's gRPC, and through the gateway
as a stream; interleaved, so that all three see the same machine. Then eight clients at once through
the gateway and in process.

    .venv/bin/python bench/gateway/overhead.py --rounds 200

writes bench/gateway/results/overhead.json.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from goals import Goal, to_json, to_lines
from in_process import InProcess
from PIL import Image
from stream_client import StreamClient

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.backends.triton_server.engine import TritonEngine
from mm_runtime.gateway.backends.engine import EngineRequest, Sampling
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.prompts.tokens import TextCodec

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests"), str(ROOT / "bench" / "runtime")]

from processes import Process, below, cpu_seconds  # noqa: E402 - neither folder is a package

from support.images import data_url  # noqa: E402
from support.real_gateway import RealGateway, run_pair  # noqa: E402
from support.tiny_llava import CHECKPOINT, IMAGES, build_engine  # noqa: E402

IMAGE = IMAGES / "blue-circle-yellow-cross.png"
QUESTION = "Describe the image."
MAX_TOKENS = 16
WARM_UP = 10
CLIENTS = 8
GREEDY = Sampling(0, 1, seed=1)


async def query_triton(engine: TritonEngine, number: int) -> list[float]:
    """Query the ensemble; return the seconds from the call to each response."""
    begin = time.perf_counter()
    square = SquareProcessor.from_folder(CHECKPOINT).reduced(Image.open(IMAGE))
    prompt = f"USER: <image>\n{QUESTION} ASSISTANT:"
    request = EngineRequest(prompt, MAX_TOKENS, GREEDY, f"bench-{number}", (np.asarray(square),))
    return [time.perf_counter() - begin async for _ in engine.generate(request)]


def chat(model: str) -> dict[str, Any]:
    """Return the body of a request for a stream about the image."""
    image = {"type": "image_url", "image_url": {"url": data_url(IMAGE.read_bytes())}}
    content = [image, {"type": "text", "text": QUESTION}]
    return {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
        "stream": True,
    }


def summarise(answers: list[list[float]]) -> dict[str, float]:
    """Return medians and 95th percentiles in milliseconds."""
    first = [times[0] * 1e3 for times in answers]
    gaps = [float(gap) * 1e3 for times in answers for gap in np.diff(times)]
    return {
        "first_token_ms_p50": round(statistics.median(first), 3),
        "first_token_ms_p95": round(float(np.percentile(first, 95)), 3),
        "first_token_ms_p99": round(float(np.percentile(first, 99)), 3),
        "token_ms_p50": round(statistics.median(gaps), 3),
        "token_ms_p95": round(float(np.percentile(gaps, 95)), 3),
        "answer_ms_p50": round(statistics.median(times[-1] * 1e3 for times in answers), 3),
    }


def ratio(one: dict[str, float], other: dict[str, float], name: str) -> float:
    """Return how many times as large a figure is."""
    return round(one[name] / other[name], 3)


async def measure(pair: RealGateway, model: InProcess, rounds: int) -> dict[str, Any]:
    """Query in turn, then eight at once."""
    engine = TritonEngine(pair.triton_grpc, TextCodec(CHECKPOINT).decode)
    ways: dict[str, list[list[float]]] = {"in_process": [], "triton": [], "gateway": []}
    client = await StreamClient.open(pair.url)
    for number in range(WARM_UP + rounds):
        times = {
            "in_process": model.query(IMAGE, QUESTION, MAX_TOKENS),
            "triton": await query_triton(engine, number),
            "gateway": await client.pieces(chat(pair.model)),
        }
        if number >= WARM_UP:
            for way, one in times.items():
                ways[way].append(one)
    client.close()
    together, costs = await at_once(pair, model, rounds)
    await engine.close()
    summaries = {way: summarise(answers) for way, answers in ways.items()}
    alone, front = summaries["in_process"], summaries["gateway"]
    behind = summaries["triton"]
    return {
        **summaries,
        "added_by_gateway_and_triton": {
            "first_token_ms": round(front["first_token_ms_p50"] - alone["first_token_ms_p50"], 3),
            "token_ms": round(front["token_ms_p50"] - alone["token_ms_p50"], 3),
        },
        "added_to_triton": {
            "first_token_p50_ratio": ratio(front, behind, "first_token_ms_p50"),
            "first_token_p99_ratio": ratio(front, behind, "first_token_ms_p99"),
            "token_ms": round(front["token_ms_p50"] - behind["token_ms_p50"], 3),
        },
        "eight_at_once_answers_per_second": together,
        "eight_at_once_cpu_ms_an_answer": costs,
        "eight_at_once_cpu_ms_an_answer_in_all": in_all(costs),
        "eight_at_once_ratio": round(together["gateway"] / together["in_process"], 3),
    }


def in_all(costs: dict[str, float]) -> float:
    """Return the processor time of an answer through the gateway, of all processes."""
    return round(sum(taken for name, taken in costs.items() if name != "in_process"), 3)


def goals(result: dict[str, Any]) -> list[Goal]:
    """Return the goals of the path: ratios of one run."""
    added = result["added_to_triton"]
    return [
        Goal("first token, times Triton's own, p50", added["first_token_p50_ratio"], 1.05),
        Goal("first token, times Triton's own, p99", added["first_token_p99_ratio"], 1.05),
        Goal("ms a token, added to Triton's", added["token_ms"], 0.3),
        Goal("eight at once, times in process", result["eight_at_once_ratio"], 0.8, at_least=True),
    ]


async def at_once(
    pair: RealGateway, model: InProcess, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Query with eight clients, through the gateway and in process.

    Returns:
        Answers per second of both ways, and milliseconds of processor time that each process of the
        first took for an answer; `in_process`: that of the second.
    """

    async def query_often() -> None:
        client = await StreamClient.open(pair.url)
        for _ in range(rounds // CLIENTS):
            await client.pieces(chat(pair.model))
        client.close()

    total = rounds // CLIENTS * CLIENTS
    there = [*below(pair.gateway.pid), *below(pair.server.pid), Process(os.getpid(), "client")]
    before = [cpu_seconds(one.pid) for one in there]
    begin = time.perf_counter()
    await asyncio.gather(*(query_often() for _ in range(CLIENTS)))
    front = time.perf_counter() - begin
    taken: dict[str, float] = {}
    for one, seconds in zip(there, before, strict=True):
        spent = (cpu_seconds(one.pid) - seconds) * 1e3 / total
        taken[one.name] = round(taken.get(one.name, 0.0) + spent, 3)
    begin, own = time.perf_counter(), cpu_seconds(os.getpid())
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(lambda _: model.query(IMAGE, QUESTION, MAX_TOKENS), range(total)))
    alone = time.perf_counter() - begin
    taken["in_process"] = round((cpu_seconds(os.getpid()) - own) * 1e3 / total, 3)
    return {"gateway": round(total / front, 1), "in_process": round(total / alone, 1)}, taken


def main() -> None:
    """Build the engine, run everything, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = build_engine(folder)
        serving = ServingPlan.from_json(built.serving.read_bytes())
        model = InProcess(built.directory, serving)
        try:
            with run_pair(built, folder) as pair:
                result = asyncio.run(measure(pair, model, rounds))
        finally:
            model.close()
    document = {
        "command": f"bench/gateway/overhead.py --rounds {rounds}",
        "machine": {
            "cores": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "image": IMAGE.name,
        "question": QUESTION,
        **result,
        "goals": to_json(reached := goals(result)),
    }
    target = Path(__file__).parent / "results" / "overhead.json"
    target.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))
    print(to_lines(reached))


if __name__ == "__main__":
    main()
