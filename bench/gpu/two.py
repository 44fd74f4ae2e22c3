"""What does a second GPU of the same host give: ranks, an encoder's own card, a unit on each?

    python bench/gpu/two.py                       on a machine with two GPUs
    python bench/gpu/two.py --backends VLLM --ways   of ranks alone: bytes, tokens a second
    python bench/gpu/two.py --device cpu --case toy --program .venv-vllm/bin/vllm   a rehearsal

Everything is planned by the operator's code and started as processes, each with its own GPUs
(CUDA_VISIBLE_DEVICES). Servers of a backend are up together and are measured one after the other:

- `one` and `other`: all of a model on the first card, and again on the second.
- `disaggregated`: the language model on the first card, its encoder on the second.
- `ranks`: vLLM with `parallelism.tensor: 2`.

`ranks`: planned bytes of each rank and what nvidia-smi counts on each GPU; tokens of answers at
temperature 0 beside those of `one`, with how close the two likeliest tokens are where answers part;
tokens a second of 1 and 32 clients. `VLLM`, `Reference`: first texts of new images, pauses of eight
streams beside four image clients, and images a second of clients that want one token, of `one`,
`disaggregated`, and `one` and `other` together.

vLLM profiles the memory of `ranks` alone on both cards. Servers that start after it share the first
card, so keys and values get the bytes that were planned, by a flag. Nothing may use the multicast
of NVLink. The result is written after each measurement, so that a run may be cut off.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import httpx
from gpu_record import RESULTS, ROOT, write
from placed import GPUS, Unit, Vllm, counted_by_gpu, seen_by_children, spec_of
from questions import body_of, new_image
from serving import built, without_encoder
from sites import Site, make_site, planned

sys.path += [str(ROOT / "bench" / "runtime")]

from image_clients import ImageClients, image_clients
from streams_beside_images import SETTLED_SECONDS, image_body
from streams_beside_images import measured as measured_beside_images
from token_path import Seen, percentile, query

from mm_operator.model import EnginePlan
from support.ended import kill_tree
from support.real_gateway import run_pair, wait_until_ready
from vllm import of_streams

SIDES = {"toy": 56}
TENSOR = {"engine": {"parallelism": {"tensor": 2}}, "runtime": {"gpu": {"count": 2}}}
DISAGGREGATED = {"vision": {"placement": "Disaggregated", "engine": "Torch"}}
WAYS = ("one", "other", "disaggregated")
CLIENTS = 32
"""Of images, for each server, where images a second are counted: as many as it answers at once.
Sixteen, until November 30, wait at the encoder, on the way and for their prompt at the same time:
perhaps too few for two cards."""

ANSWERS, ANSWER_TOKENS = 16, 64
WARM = 4
PLAIN = ("--disable-custom-all-reduce",)
"""For ranks that cannot open each other's memory: NCCL alone."""


def of_memory(server: Vllm, plan: EnginePlan) -> dict[str, Any]:
    """Return planned and counted bytes of each rank, the fullest GPU last."""
    memory = plan.memory
    rest = sorted(one.total_bytes - one.kv_cache_bytes for one in memory.per_gpu)
    wanted = [one + memory.kv_pool_bytes for one in rest]
    counted = sorted(counted_by_gpu(server.process.pid).values())
    said = server.said()
    kept = int(said.get("kv_tokens", 0)) * memory.kv_bytes_per_token
    return {
        "planned_bytes": wanted,
        "planned_rest_bytes": rest,
        "planned_kv_bytes": memory.kv_pool_bytes,
        "planned_first_gpu": memory.per_gpu[0].model_dump(),
        "utilization": memory.gpu_memory_utilization,
        "counted_bytes": counted,
        "counted_kv_bytes": kept,
        "planned_over_counted": [
            round(a / b, 3) for a, b in zip(wanted, counted, strict=False) if b
        ],
        "rest_over_counted": [
            round(a / (b - kept), 3) for a, b in zip(rest, counted, strict=False) if b > kept
        ],
        "by_its_log": said,
    }


def answers(address: str, model: str, images: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Return the tokens of answers at temperature 0, with the two likeliest, by vLLM's own port."""
    found = []
    for image in images:
        body = json.loads(body_of(model, image, ANSWER_TOKENS))
        del body["stream_options"]
        body |= {"stream": False, "logprobs": True, "top_logprobs": 2}
        said = httpx.post(f"http://{address}/v1/chat/completions", json=body, timeout=120)
        said.raise_for_status()
        found.append(said.json()["choices"][0]["logprobs"]["content"])
    return found


def compared(
    here: Sequence[Sequence[Mapping[str, Any]]], there: Sequence[Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return how many answers are equal, and where and at which margins the others part.

    A margin is the difference of the logarithms of the two likeliest tokens' probabilities.
    """
    first: dict[int, int] = {}
    for question, pair in enumerate(zip(here, there, strict=True)):
        for position, (mine, other) in enumerate(zip(*pair, strict=False)):
            if mine["token"] != other["token"]:
                first[question] = position
                break
    return {
        "answers": len(here),
        "tokens": ANSWER_TOKENS,
        "equal": len(here) - len(first),
        "first_differences": list(first.values()),
        "margins_there": [_margin(here[question][at]) for question, at in first.items()],
        "median_margin": round(median(_margin(token) for answer in here for token in answer), 4),
    }


def _margin(token: Mapping[str, Any]) -> float:
    likeliest, next_one = (float(one["logprob"]) for one in token["top_logprobs"][:2])
    return round(likeliest - next_one, 4)


def first_texts(units: Mapping[str, Unit], side: int, requests: int) -> dict[str, Any]:
    """Return the times to the first text about new images, a request of each unit in turn."""
    seen = {name: Seen() for name in units}
    clients = {
        name: HTTPConnection(one.url.removeprefix("http://"), timeout=120)
        for name, one in units.items()
    }
    for turn in range(WARM + requests):
        for name, unit in units.items():
            mine = Seen() if turn < WARM else seen[name]
            query(clients[name], body_of(unit.model, new_image(side), 2), mine)
    for client in clients.values():
        client.close()
    return {
        name: {
            "requests": requests,
            "p50": percentile(one.firsts, 0.5),
            "p95": percentile(one.firsts, 0.95),
        }
        for name, one in seen.items()
    }


def beside_images(unit: Unit, side: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the pauses of eight streams, alone and beside four image clients."""
    count = int(options.rounds * (options.seconds + SETTLED_SECONDS + 1) * options.most)
    images = _images(count, side)
    pair: Any = SimpleNamespace(url=unit.url, model=unit.model)
    return measured_beside_images(pair, images, options.rounds, options.seconds)


def images_a_second(units: Sequence[Unit], side: int, options: argparse.Namespace) -> float:
    """Return how many images are answered with a token, of units with so many clients each."""
    count = int((options.seconds + SETTLED_SECONDS + 1) * options.most) + CLIENTS
    bodies = [[image_body(unit.model, one) for one in _images(count, side)] for unit in units]
    return answers_a_second(units, bodies, options.seconds)


def answers_a_second(
    units: Sequence[Unit], bodies: Sequence[Sequence[bytes]], seconds: float
) -> float:
    """Return how many requests are answered, of units with so many clients each."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(image_clients(unit.url, some, CLIENTS))
            for unit, some in zip(units, bodies, strict=True)
        ]
        return asyncio.run(_counted(clients, seconds))


def _images(count: int, side: int) -> list[str]:
    with ThreadPoolExecutor() as threads:
        return list(threads.map(lambda _: new_image(side), range(count)))


async def _counted(clients: Sequence[ImageClients], seconds: float) -> float:
    for one in clients:
        one.begin()
    await asyncio.sleep(SETTLED_SECONDS)
    begin = time.perf_counter()
    await asyncio.sleep(seconds)
    end = time.perf_counter()
    answered = await asyncio.gather(*(one.end() for one in clients))
    return round(sum(begin <= one.at < end for some in answered for one in some) / seconds, 2)


def tried(name: str, call: Callable[[], Any]) -> Any:
    """Return what a call returns; None: it failed, which is printed."""
    began = time.monotonic()
    try:
        return call()
    except Exception:  # noqa: BLE001 - what comes after it is measured all the same
        print(name, traceback.format_exc(), flush=True)
        return None
    finally:
        print(f"{time.monotonic() - began:7.1f} s  {name}", flush=True)


def worked(name: str, call: Callable[[], object]) -> bool:
    """Report whether a call returned."""
    return bool(tried(name, lambda: (call(),)))


def of_units(units: Mapping[str, Unit], options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Yield what one card, two roles on two cards, and two cards alike do."""
    side = SIDES.get(options.case, 336)
    two = {name: units[name] for name in ("one", "disaggregated") if name in units}
    yield "first_text_ms", tried("first texts", lambda: first_texts(two, side, options.requests))
    groups = {name: [unit] for name, unit in two.items()}
    if "one" in units and "other" in units:
        groups["one and other"] = [units["one"], units["other"]]
    found: dict[str, Any] = {}
    for name, some in groups.items():
        found[name] = tried(f"images {name}", lambda: images_a_second(some, side, options))  # noqa: B023
        yield "images_a_second", found
    beside: dict[str, Any] = {}
    for name, unit in reversed(two.items()):
        beside[name] = tried(f"beside {name}", lambda: beside_images(unit, side, options))  # noqa: B023
        yield "beside_images", beside


def of_ranks(
    servers: Mapping[str, Vllm],
    units: Mapping[str, Unit],
    plan: EnginePlan,
    options: argparse.Namespace,
) -> Iterator[tuple[str, Any]]:
    """Yield what two ranks do beside one GPU."""
    side = SIDES.get(options.case, 336)
    images = _images(ANSWERS, side)
    texts = {
        name: tried(
            f"answers {name}",
            lambda: answers(server.address, server.plan.model, images),  # noqa: B023
        )
        for name, server in servers.items()
        if name in units and name != "disaggregated"
    }
    for name in ("ranks", "other"):
        mine, others = texts.get("one"), texts.get(name)
        if mine and others:
            yield f"answers of one and {name}", compared(mine, others)
    streams: dict[str, Any] = {}
    for count in (1, 32):
        for name in ("one", "ranks"):
            if name in units:
                address = units[name].url.removeprefix("http://")
                way: Any = SimpleNamespace(model=units[name].model, urls={"gateway": address})
                row = tried(
                    f"{count} streams of {name}",
                    lambda: of_streams(way, (side, side), count, options.share),  # noqa: B023
                )
                streams.setdefault(str(count), {})[name] = row and row["gateway"]
                yield "streams", streams
    yield "memory", tried("memory", lambda: of_memory(servers["ranks"], plan))


def of_vllm(
    sites: Mapping[str, Callable[[], Site]],
    planned_ranks: Callable[[], EnginePlan],
    options: argparse.Namespace,
) -> Iterator[tuple[str, str, Any]]:
    """Yield what vLLM does: ranks, then units."""
    side = SIDES.get(options.case, 336)
    with ExitStack() as stack:
        base = sites["one"]()
        plan = planned_ranks()
        assert plan.build_plan.fingerprint == base.plan.build_plan.fingerprint
        servers = {"ranks": Vllm(stack, replace(base, plan=plan), "ranks", ",".join(GPUS), options)}
        ranks = servers["ranks"]
        more: tuple[str, ...] = ()
        for more in ((), PLAIN):
            ranks.start(*more)
            if worked("ranks", lambda: ranks.until(ranks.knows_its_memory)):
                break
            kill_tree(ranks.process)
        yield "VLLM", "ranks_flags", list(more)
        for name in options.ways:
            gpu = GPUS[name == "other"]
            site = tried(name, sites["disaggregated" if name == "disaggregated" else "one"])
            if site is not None:
                servers[name] = Vllm(stack, site, name, gpu, options)
                kept = site.plan.memory.kv_pool_bytes
                flags = ("--kv-cache-memory-bytes", str(kept)) if options.device == "cuda" else ()
                servers[name].start(*flags)
        units = {}
        for name, server in servers.items():
            unit = tried(f"{name} is up", lambda: server.unit(side))  # noqa: B023
            if unit is not None:
                units[name] = unit
        for key, value in of_ranks(servers, units, plan, options):
            yield "ranks", key, value
        kill_tree(ranks.process)
        for key, value in of_units(units, options) if options.ways else ():
            yield "VLLM", key, value
        if "disaggregated" in units:
            yield "VLLM", "handed_over", tried("handed over", servers["disaggregated"].handed_over)


def of_reference(
    site: Callable[[], Site], checkpoint: Path, options: argparse.Namespace
) -> Iterator[tuple[str, str, Any]]:
    """Yield what the Reference engine does."""
    device = "CUDA" if options.device == "cuda" else "CPU"
    with ExitStack() as stack:
        engine = site()
        folders = {name: options.logs / f"r-{name}" for name in ("one", "other", "disaggregated")}
        for folder in folders.values():
            folder.mkdir(parents=True)

        def started(name: str, gpu: str) -> Any:
            folder = folders[name]
            with seen_by_children(gpu):
                pair = run_pair(
                    without_encoder(stack, engine, checkpoint, folder, device)
                    if name == "disaggregated"
                    else engine.engine,
                    folder,
                    awaited=False,
                )
                return stack.enter_context(pair)

        pairs = {
            name: tried(f"Reference {name}", lambda: started(name, gpu))  # noqa: B023
            for name, gpu in (("one", GPUS[0]), ("other", GPUS[1]), ("disaggregated", GPUS[0]))
        }
        units = {}
        for name, pair in pairs.items():
            if pair and worked(f"{name} is up", lambda: wait_until_ready(pair)):  # noqa: B023
                units[name] = Unit(pair.url, pair.model)
        for key, value in of_units(units, options):
            yield "Reference", key, value


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "two.json")
    parser.add_argument("--case", default="7b", help="of checkpoints.py")
    parser.add_argument("--backends", nargs="+", default=["VLLM", "Reference"])
    parser.add_argument("--ways", nargs="*", default=WAYS, choices=WAYS, help="none: ranks alone")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--program", default="vllm")
    parser.add_argument("--flags", nargs="*", default=[], help="more of vLLM's, for rehearsals")
    parser.add_argument("--fraction", default="0.15", help="kvCache.freeGpuMemoryFraction")
    parser.add_argument("--version", default="0.26.0", help="of vLLM")
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--share", type=float, default=1.0, help="of the answers of streams")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--most", type=int, default=160, help="images a second that are made")
    parser.add_argument("--ready", type=float, default=240, help="seconds of a start")
    parser.add_argument("--work", type=Path, help="folder of checkpoints and engines, kept")
    parser.add_argument("--logs", type=Path, help="folder of logs, kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="t-") as temporary, ThreadPoolExecutor() as building:
        work = options.work or Path(temporary)
        options.logs = options.logs or Path(temporary) / "logs"
        makers = [ROOT / "bench" / "gpu" / "checkpoints.py", "--folder", work / "checkpoints"]
        makers += ["--device", options.device, "--shapes", options.case]
        subprocess.run([sys.executable, *map(str, makers)], check=True)
        checkpoint = work / "checkpoints" / options.case
        specs = {"one": spec_of(options), "disaggregated": spec_of(options, DISAGGREGATED)}
        sites = {
            name: building.submit(make_site, work / name, checkpoint, device="CUDA", spec=spec)
            for name, spec in specs.items()
            if "VLLM" in options.backends and (name == "one" or name in options.ways)
        }
        results: list[Iterator[tuple[str, str, Any]]] = []
        if sites:
            ready = {name: site.result for name, site in sites.items()}
            spec = spec_of(options, TENSOR)
            ranks = building.submit(planned, checkpoint, device="CUDA", spec=spec)
            results.append(of_vllm(ready, ranks.result, options))
        if "Reference" in options.backends:
            device = "CUDA" if options.device == "cuda" else "CPU"
            site = building.submit(built, options.case, work, device)
            results.append(of_reference(site.result, checkpoint, options))
            known: dict[str, Any] = {"clients": CLIENTS, "ranks": {}, "VLLM": {}, "Reference": {}}
        for some in results:
            while entry := tried("one step", lambda: next(some, None)):  # noqa: B023
                group, key, value = entry
                known[group][key] = value
                write(options.out, f"python bench/gpu/two.py --case {options.case}", known)


if __name__ == "__main__":
    main()
