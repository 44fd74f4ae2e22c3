"""What does the gateway add to vLLM's own server, unmodified, and do planned bytes hold?

    python bench/gpu/vllm.py --cases 7b 7b:disaggregated --add
    CUDA_VISIBLE_DEVICES=1 python bench/gpu/vllm.py --cases qwen-7b --add

Each case is planned by the operator's code and built; then `vllm` (`--program`) is started by the
plan's command, and a gateway before it. The same requests go to vLLM (`stock`) and through the
gateway (`gateway`), in turn, so that both see the same machine. Images are new each time: JPEGs of
336 x 336, for Qwen2.5-VL of 1280 x 720; answers have 128 tokens.

`:disaggregated` has an encoder on the same GPU (MPS, 25 % of its threads) compute the features of
what the gateway sends; `stock` is the same server, which encodes the images of its own port itself.
It has 0.8 of the memory for keys and values.
`:reference` is this project's engine in Triton. MPS, which it and `:disaggregated` start, needs the
UUID of another GPU than the first in CUDA_VISIBLE_DEVICES.

- `cold_start_s`: seconds until vLLM listens, and until its first text and its first image were
  answered; beside it what vLLM's log says that its parts took.
- `first_text_ms`: one request after the other.
- `streams`: the same with 1, 8 and 32 clients that wait for each answer, and tokens a second.
- `beside_images`: the pauses between tokens of eight text streams, alone and beside four clients
  that send new images without pause (bench/runtime/streams_beside_images.py).
- `memory`: what was planned, and what nvidia-smi counts for vLLM's processes after all that.
- `handed_over`: features that encoders computed, and images that vLLM encoded all the same.

The result is written after each measurement, so that a run may be cut off.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpu_record import RESULTS, ROOT, write
from questions import body_of, new_image
from sites import Site, gpu_bytes_by_process
from vllm_servers import ANSWER_SECONDS, Served, handed_over, parts_of, size_of, staged, start

sys.path += [str(ROOT / "bench" / "runtime")]

import streams_beside_images as beside_images
from token_path import Seen, percentile, query

CASES = ["7b", "1.3b", "qwen-7b"]
ANSWER = 128
WARM = 6
STREAMS = {1: 6, 8: 32, 32: 128}
"""Clients -> answers of a round; each round has both ways."""

ROUNDS = 2
CLIENT_PROCESSES = 4
IMAGES_A_SECOND = {"qwen-7b": 40, "qwen-toy": 40, "toy": 400}
OTHERS_A_SECOND = 80
"""More than four clients that wait for each answer send."""

FOUND = {
    "model_gib": r"Model loading took ([\d.]+) GiB",
    "available_kv_gib": r"Available KV cache memory: ([\d.]+) GiB",
    "graphs_gib": r"Graph capturing finished in [\d.]+ secs, took ([\d.]+) GiB",
    "kv_tokens": r"KV cache size: ([\d,]+) tokens",
}


def reader(address: str, bodies: Sequence[str]) -> tuple[float, Seen, float]:
    """Return what one client saw, and when it began and ended."""
    client, seen = HTTPConnection(address, timeout=ANSWER_SECONDS), Seen()
    began = time.perf_counter()
    for body in bodies:
        query(client, body, seen)
    client.close()
    return began, seen, time.perf_counter()


def readers(address: str, streams: Sequence[Sequence[str]]) -> list[tuple[float, Seen, float]]:
    """Return what clients of one process saw."""
    with ThreadPoolExecutor(len(streams)) as threads:
        return list(threads.map(reader, [address] * len(streams), streams))


def first_texts(served: Served, size: tuple[int, int], requests: int) -> dict[str, Any]:
    """Return the times to the first text of both ways, a request of each in turn.

    `added_ms`: the median of what the second takes more than the first in the same turn.
    """
    seen = {way: Seen() for way in served.urls}
    clients = {way: HTTPConnection(one, timeout=60) for way, one in served.urls.items()}
    for turn in range(WARM + requests):
        for way in list(clients)[:: -1 if turn % 2 else 1]:
            mine = Seen() if turn < WARM else seen[way]
            query(clients[way], body_of(served.model, new_image(*size), 2), mine)
    shares = {"p10": 0.1, "p50": 0.5, "p95": 0.95}
    found = compared(
        {
            way: {name: percentile(one.firsts, share) for name, share in shares.items()}
            for way, one in seen.items()
        }
    )
    if len(seen) > 1:
        stock, other = (one.firsts for one in seen.values())
        added = [later - sooner for sooner, later in zip(stock, other, strict=True)]
        found["added_ms"] = percentile(added, 0.5)
    return found | {"requests": requests}


def compared(ways: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return the ways' results and, where there are two, the second's over vLLM's own."""
    if len(ways) == 1:
        return ways
    stock, other = ways.values()
    return {**ways, "ratio": {name: round(other[name] / stock[name], 3) for name in stock}}


def of_streams(served: Served, size: tuple[int, int], streams: int, share: float) -> dict[str, Any]:
    """Return tokens a second, first texts and pauses of so many clients, both ways in turn."""
    each = max(1, round(STREAMS[streams] * share)) // streams or 1
    processes = min(CLIENT_PROCESSES, streams)
    rows: dict[str, list[tuple[float, Seen, float]]] = {way: [] for way in served.urls}
    seconds = dict.fromkeys(served.urls, 0.0)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(time.sleep, [0.5] * processes))  # all of them are there
        for turn in range(ROUNDS):
            for way in list(served.urls)[:: -1 if turn % 2 else 1]:
                bodies = [_bodies(served.model, size, each) for _ in range(streams)]
                parts = [bodies[at::processes] for at in range(processes)]
                found = [
                    row
                    for some in pool.map(readers, [served.urls[way]] * processes, parts)
                    for row in some
                ]
                rows[way] += found
                seconds[way] += max(row[2] for row in found) - min(row[0] for row in found)
    return compared({way: _seen([row[1] for row in rows[way]], seconds[way]) for way in rows})


def _bodies(model: str, size: tuple[int, int], count: int) -> list[str]:
    return [body_of(model, new_image(*size), ANSWER) for _ in range(count)]


def _seen(seen: Sequence[Seen], seconds: float) -> dict[str, float]:
    firsts = [one for some in seen for one in some.firsts]
    gaps = [one for some in seen for one in some.gaps]
    return {
        "tokens_per_second": round(sum(one.tokens for one in seen) / seconds, 1),
        "answers": len(firsts),
        "first_text_p50_ms": percentile(firsts, 0.5),
        "first_text_p95_ms": percentile(firsts, 0.95),
        "pause_p50_ms": percentile(gaps, 0.5),
        "pause_p95_ms": percentile(gaps, 0.95),
    }


def of_beside_images(served: Served, case: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the pauses of eight streams, alone and beside four image clients, ways in turn."""
    rate, size = IMAGES_A_SECOND.get(parts_of(case)[0], OTHERS_A_SECOND), size_of(case)
    most = int((options.seconds + 4) * rate)
    found: dict[str, list[Any]] = {way: [] for way in served.urls}
    for turn in range(options.rounds):
        for way in list(served.urls)[:: -1 if turn % 2 else 1]:
            with ThreadPoolExecutor() as threads:
                images = list(threads.map(lambda _: new_image(*size), range(most)))
            pair: Any = SimpleNamespace(url=f"http://{served.urls[way]}", model=served.model)
            found[way] += beside_images.seen(pair, images, 1, options.seconds)
    return {way: beside_images.summary(rounds, options.seconds) for way, rounds in found.items()}


def of_memory(served: Served, site: Site, folder: Path) -> dict[str, Any]:
    """Return planned and counted bytes; `rest` is all but keys and values."""
    memory, said = site.plan.memory, served.said(FOUND)
    planned = memory.per_gpu[0]
    rest = planned.total_bytes - planned.kv_cache_bytes
    by_process = gpu_bytes_by_process(served.process.pid, folder)
    counted = sum(by_process.values())
    kept = int(said.get("kv_tokens", 0)) * memory.kv_bytes_per_token
    return {
        "planned": planned.model_dump(),
        "planned_bytes": rest + memory.kv_pool_bytes,
        "planned_rest_bytes": rest,
        "planned_kv_bytes": memory.kv_pool_bytes,
        "utilization": memory.gpu_memory_utilization,
        "counted_bytes": counted,
        "counted_kv_bytes": kept,
        "counted_rest_bytes": counted - kept,
        "by_process": by_process,
        "by_its_log": said,
        "planned_over_counted": round((rest + memory.kv_pool_bytes) / counted, 3)
        if counted
        else None,
        "rest_over_counted": round(rest / (counted - kept), 3) if counted > kept else None,
    }


def tried(case: str, name: str, call: Callable[[], Any]) -> Any:
    """Return what a call returns; None: it failed, which is printed."""
    try:
        return call()
    except Exception:  # noqa: BLE001 - what comes after it is measured all the same
        print(case, name, traceback.format_exc(), flush=True)
        return None


def measure(case: str, site: Site, options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Yield name and result of each measurement of a case, the most wanted first."""
    size = size_of(case)
    with tempfile.TemporaryDirectory(prefix="v-") as temporary, ExitStack() as stack:
        folder = options.logs or Path(temporary)
        folder = folder / case.replace(":", "-")
        folder.mkdir(parents=True, exist_ok=True)
        served, seconds = start(stack, case, site, folder, options.program)
        yield "cold_start_s", seconds
        if "stock" in served.urls:
            yield "memory", tried(case, "memory", lambda: of_memory(served, site, folder))
        yield (
            "first_text_ms",
            tried(case, "first_text_ms", lambda: first_texts(served, size, options.requests)),
        )
        yield (
            "beside_images",
            tried(case, "beside_images", lambda: of_beside_images(served, case, options)),
        )
        if served.features is not None:
            yield "handed_over", tried(case, "handed_over", lambda: handed_over(served))
        streams = {}
        for count in options.streams:
            streams[str(count)] = tried(
                case,
                f"streams {count}",
                lambda: of_streams(served, size, count, options.share),  # noqa: B023
            )
            yield "streams", streams
        if "stock" in served.urls:
            yield "memory", tried(case, "memory", lambda: of_memory(served, site, folder))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "vllm.json")
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--program", default="vllm")
    parser.add_argument("--fraction", default="Auto", help="kvCache.freeGpuMemoryFraction")
    parser.add_argument("--version", default="0.26.0", help="of vLLM")
    parser.add_argument("--device", default="cuda", help="where weights are made")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--streams", type=int, nargs="*", default=list(STREAMS), choices=STREAMS)
    parser.add_argument("--share", type=float, default=1.0, help="of the answers of a round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--work", type=Path, help="folder of checkpoints and the store, kept")
    parser.add_argument("--logs", type=Path, help="folder of logs, kept")
    parser.add_argument("--add", action="store_true", help="keep other cases of --out")
    options = parser.parse_args()
    command = "python bench/gpu/vllm.py --cases " + " ".join(options.cases)
    with tempfile.TemporaryDirectory(prefix="v-") as temporary, ThreadPoolExecutor() as staging:
        work = options.work or Path(temporary)
        # In a process of its own, which gives its memory of the GPU back.
        makers = [ROOT / "bench" / "gpu" / "checkpoints.py", "--folder", work / "checkpoints"]
        makers += ["--device", options.device, "--shapes"]
        makers += sorted({parts_of(case)[0] for case in options.cases})
        subprocess.run([sys.executable, *map(str, makers)], check=True)
        sites = {case: staging.submit(staged, case, work, options) for case in options.cases}
        known = json.loads(options.out.read_text())["cases"] if options.add else {}
        for case, building in sites.items():
            if (ready := tried(case, "staged", building.result)) is None:
                continue
            site, seconds = ready
            known[case] = {"staged_s": seconds}
            results = measure(case, site, options)
            while entry := tried(case, "start", lambda: next(results, None)):  # noqa: B023
                known[case] |= dict([entry])
                write(options.out, command, {"cases": known})


if __name__ == "__main__":
    main()
