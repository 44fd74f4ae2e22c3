"""Does a pod's memory grow? Half an hour at a fixed load, and a line fitted to what it holds.

The real pair of a pod (gateway, tritonserver with the tiny model) is queried by `mm-lab bench` in
an open loop, one request in three without an image, half of the answers cut by their length. Every
ten seconds the memory of each process is read: heap and shared memory, no files. The slope is that
of a least-squares line over the samples after the first fifth: until then pools and allocators find
their size.

    .venv/bin/python bench/runtime/soak.py --minutes 30 --rate 3

writes bench/runtime/results/soak.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from processes import Process, below, memory_bytes
from record import RESULTS, write

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))

from support.real_gateway import RealGateway, run_pair  # noqa: E402 - tests are no package
from support.tiny_llava import IMAGES, build_engine  # noqa: E402

SAMPLE_SECONDS = 10
SETTLING_SHARE = 0.2
MIB = 1 << 20


def load_command(pair: RealGateway, minutes: float, rate: float) -> list[str]:
    """Return the load generator's command."""
    return [
        *(str(Path(sys.executable).parent / "mm-lab"), "bench", f"{pair.url}/v1", "--quiet"),
        *("--rate", str(rate), "--duration", f"{int(minutes * 60)}s", "--images", "0:1,1:2"),
        *("--picture", str(IMAGES / "red-square.png"), "--prompt", "What is in the image?"),
        *("--max-tokens", "2:1,32:1", "--new-connections", "--seed", "5", "-o", "json"),
    ]


def sample(processes: list[Process]) -> dict[str, int]:
    """Return the bytes of each process by name."""
    return {one.name: memory_bytes(one.pid) for one in processes}


def watch(pair: RealGateway, minutes: float, rate: float) -> dict[str, object]:
    """Load the pair and sample it until the load ends."""
    processes = below(pair.server.pid) + below(pair.gateway.pid)
    moments: list[float] = []
    samples: list[dict[str, int]] = []
    begin = time.monotonic()
    command = load_command(pair, minutes, rate)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as load:
        while load.poll() is None and time.monotonic() - begin < minutes * 60 + 120:
            moments.append(time.monotonic() - begin)
            samples.append(sample(processes))
            time.sleep(SAMPLE_SECONDS)
        load.terminate()  # does nothing to one that has ended
        report = json.loads(load.communicate(timeout=60)[0])
    return {
        "load": report,
        "samples": len(samples),
        "processes": {
            one.name: slope(moments, [row[one.name] for row in samples]) for one in processes
        },
        "pod": slope(moments, [sum(row.values()) for row in samples]),
    }


def slope(moments: list[float], held: list[int]) -> dict[str, float]:
    """Return the first and last value after settling, and the fitted growth."""
    first = int(len(held) * SETTLING_SHARE)
    seconds, sizes = np.array(moments[first:]), np.array(held[first:]) / MIB
    growth = float(np.polyfit(seconds, sizes, 1)[0]) * 3600
    return {
        "start_mib": round(held[0] / MIB, 1),
        "settled_mib": round(float(sizes[0]), 1),
        "end_mib": round(float(sizes[-1]), 1),
        "mib_per_hour": round(growth, 2),
    }


def main() -> None:
    """Build the engine, load it, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=3, help="requests a second")
    parser.add_argument("--output", type=Path, default=RESULTS / "soak.json")
    chosen = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with run_pair(build_engine(folder), folder) as pair:
            result = watch(pair, chosen.minutes, chosen.rate)
    command = f"bench/runtime/soak.py --minutes {chosen.minutes:g} --rate {chosen.rate:g}"
    write(chosen.output, command, before, result)


if __name__ == "__main__":
    main()
