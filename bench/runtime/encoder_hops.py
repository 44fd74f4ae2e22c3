"""Where the time goes between a server and an encoder in a pod of its own, step by step.

    python bench/runtime/encoder_hops.py --against 7785a8ea

Two real tritonservers on this machine, an encoder's pod and a server with a language model behind
its encoder model, without what computes: features of an image of 336 x 336 are ready, and the
language model only reads them (hops/traced.py). Models are configured as on a GPU: features of
bfloat16, images as bytes from `preprocessing`. One request at a time. With `--against` the pods of
another commit take turns with this checkout's.

- `steps_ms`: from what is named to what is named after it, in order: a request's way.
- `way_ms`: of all of it, from the first to the last; `steps_sum_ms`: the steps' sum, which others
  of the machine disturb least.
- `processor_ms`, `new_pages`: of each process for a request.

Tenth percentiles: the nearest to idle cores. Writes bench/runtime/results/encoder_hops.json.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from processes import Process, below
from record import RESULTS, write
from tritonclient.grpc import InferenceServerClient, InferInput

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench" / "gateway"), str(ROOT / "bench" / "runtime" / "hops")]
sys.path.append(str(ROOT / "tests"))

from checkouts import checked_out, environment  # noqa: E402 - of another folder
from site_of_hops import ENSEMBLE, KEY, ROWS, SIDE  # noqa: E402

from mm_api.documents.serving_plan import MemoryPools  # noqa: E402
from mm_runtime.launch.arguments import ServerOptions, server_argv, server_environment  # noqa: E402
from mm_runtime.launch.backends import copy_backends, find_installation  # noqa: E402
from mm_runtime.settings import Ports  # noqa: E402
from support.ended import end  # noqa: E402
from support.ports import free_ports  # noqa: E402
from support.tied import tied  # noqa: E402

WIDTHS = {"1.3b": 2048, "7b": 4096}
"""Of the features of bench/gpu/serving.py's models."""

WARM_UP = 20
READY_SECONDS = 120
SITE_SECONDS = 60
POOLS = MemoryPools(cuda_bytes=0, pinned_bytes=0, shm_bytes=256 << 20)
TENTH = 10


@dataclass(frozen=True)
class Pods:
    """A server and its encoder, of one commit."""

    client: InferenceServerClient
    processes: Sequence[Process]
    traces: Path


@contextmanager
def pods(checkout: Path, width: int, folder: Path) -> Iterator[Pods]:
    """Start both; they end with the context."""
    ports = {name: free_ports(3) for name in ("encoder", "server")}
    traces = folder / "traces"
    traces.mkdir(parents=True)
    own = environment(checkout)
    hops = ROOT / "bench" / "runtime" / "hops"
    subprocess.run(
        [sys.executable, hops / "site_of_hops.py", folder, str(width), str(ports["encoder"][1])],
        env=own,
        timeout=SITE_SECONDS,
        check=True,
    )
    installation = find_installation()
    with ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []
        for role, (http, grpc, metrics) in ports.items():
            backends = folder / role / "backends"
            copy_backends(installation, backends)
            options = ServerOptions(
                repository=folder / role / "repository",
                backends=backends,
                ports=Ports(http=http, grpc=grpc, metrics=metrics),
                pools=POOLS,
                exit_seconds=5,
                secret=KEY,
                encoder_key=KEY if role == "encoder" else "",
            )
            settings = {
                **server_environment(installation, own),
                "PYTHONPATH": os.pathsep.join([own["PYTHONPATH"], str(hops)]),
                "MM_HOP_TRACES": str(traces),
                "MM_HOP_WIDTH": str(width),
                "MM_HOP_ROWS": str(ROWS),
            }
            log = stack.enter_context((folder / f"{role}.log").open("wb"))
            process = subprocess.Popen(
                tied(server_argv(installation, options)),
                env=settings,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            stack.callback(end, process)
            started.append(process)
        clients = [
            stack.enter_context(InferenceServerClient(f"127.0.0.1:{one[1]}"))
            for one in ports.values()
        ]
        deadline = time.monotonic() + READY_SECONDS
        while not all(_is_ready(one) for one in clients):
            if time.monotonic() > deadline or any(one.poll() is not None for one in started):
                raise RuntimeError(
                    "\n".join((folder / f"{role}.log").read_text() for role in ports)
                )
            time.sleep(0.2)
        processes = [
            Process(one.pid, f"{role}: {one.name}")
            for role, process in zip(ports, started, strict=True)
            for one in below(process.pid)
        ]
        yield Pods(clients[1], processes, traces)


def _is_ready(client: InferenceServerClient) -> bool:
    try:
        return bool(client.is_server_ready(client_timeout=5))
    except Exception:  # noqa: BLE001 (it does not listen yet)
        return False


def request(number: int) -> list[InferInput]:
    """Return the tensors of a request with an image that is new."""
    pixels = np.random.default_rng(number).integers(0, 256, (1, 1, SIDE, SIDE, 3), dtype=np.uint8)
    tensor = InferInput("pixel_bytes", list(pixels.shape), "UINT8")
    tensor.set_data_from_numpy(pixels)
    return [tensor]


def used(process: Process) -> tuple[float, int]:
    """Return milliseconds of processor time, and pages that were new, since a process began."""
    spent = 0
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        try:
            spent += int((task / "schedstat").read_text().split()[0])
        except OSError:  # a thread that has just ended
            continue
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
    return spent / 1e6, int(fields[7])


@dataclass
class Seen:
    """What was measured of one pair of pods."""

    windows: list[tuple[int, int]]
    processor: list[list[float]]
    pages: list[list[int]]


def measure(pods_of: dict[str, Pods], requests: int) -> dict[str, Seen]:
    """Send each pair one request after another, in turn."""
    seen = {name: Seen([], [], []) for name in pods_of}
    for number in range(-WARM_UP, requests):
        tensors = request(number + WARM_UP)
        for name, one in pods_of.items():
            before = [used(process) for process in one.processes]
            begun = time.monotonic_ns()
            rows = one.client.infer(ENSEMBLE, tensors).as_numpy("ROWS").item()
            ended = time.monotonic_ns()
            if rows != ROWS:
                raise RuntimeError(f"the language model read {rows} rows, not {ROWS}")
            if number < 0:
                continue
            after = [used(process) for process in one.processes]
            both = list(zip(before, after, strict=True))
            seen[name].windows.append((begun, ended))
            seen[name].processor.append([new[0] - old[0] for old, new in both])
            seen[name].pages.append([new[1] - old[1] for old, new in both])
    return seen


def steps(traces: Path, windows: Sequence[tuple[int, int]]) -> dict[str, list[float]]:
    """Return milliseconds of each step of each request, the last name for all of them."""
    noted = sorted(
        (int(when), event)
        for file in traces.iterdir()
        for event, _, when in (line.rpartition(" ") for line in file.read_text().splitlines())
    )
    found: dict[str, list[float]] = {}
    for begun, ended in windows:
        own = [(when, event) for when, event in noted if begun <= when <= ended]
        # What ends beside the way on: a response that is sent is read before its call returns.
        way = [(when, event) for when, event in own if event not in {"answered", "handed over"}]
        for (when, event), (later, _) in pairwise(way):
            found.setdefault(event, []).append((later - when) / 1e6)
        found.setdefault("all", []).append((way[-1][0] - way[0][0]) / 1e6)
    return found


def summary(pair: Pods, seen: Seen) -> dict[str, Any]:
    """Return tenth percentiles."""

    def low(values: Any) -> float:
        return round(float(np.percentile(values, TENTH)), 3)

    found = {name: low(values) for name, values in steps(pair.traces, seen.windows).items()}
    way = found.pop("all")
    names = [one.name for one in pair.processes]
    processor = [low(one) for one in zip(*seen.processor, strict=True)]
    return {
        "way_ms": way,
        "steps_sum_ms": round(sum(found.values()), 3),
        "steps_ms": found,
        "processor_ms": dict(zip(names, processor, strict=True)),
        "new_pages": {
            name: int(np.median(one))
            for name, one in zip(names, zip(*seen.pages, strict=True), strict=True)
        },
    }


def main() -> None:
    """Start, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--against", help="another commit, measured in turn")
    parser.add_argument("--requests", type=int, default=100)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    result: dict[str, Any] = {"requests": options.requests}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkouts = {"now": ROOT}
        if options.against:
            other = folder / "other"
            other.mkdir()
            checkouts[options.against] = checked_out(options.against, other)
        for model, width in WIDTHS.items():
            with ExitStack() as stack:
                pods_of = {
                    name: stack.enter_context(pods(checkout, width, folder / model / name))
                    for name, checkout in checkouts.items()
                }
                seen = measure(pods_of, options.requests)
            result[model] = {name: summary(pods_of[name], seen[name]) for name in pods_of}
            if options.against:
                for what in ("way_ms", "steps_sum_ms"):
                    now, before = (result[model][name][what] for name in checkouts)
                    result[model][f"{what.removesuffix('_ms')}_ratio"] = round(now / before, 3)
    command = " ".join(["bench/runtime/encoder_hops.py", *sys.argv[1:]])
    write(RESULTS / "encoder_hops.json", command, load, result)


if __name__ == "__main__":
    main()
