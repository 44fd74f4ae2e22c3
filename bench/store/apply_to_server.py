"""What an engine in the store saves: from apply to the start of the server, built and cached.

In each round a model needs an engine that no one has, and a second one the same engine. The ratio
of the two is taken within one run on one machine, so a busy machine slows both alike.

    .venv/bin/python bench/store/apply_to_server.py [--rounds 3] [--output FILE]

needs root: it starts an entire development cluster of its own (or uses that of MM_TEST_KUBECONFIG).
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from mm_api import labels  # noqa: E402
from support import clusters  # noqa: E402
from support.eventually import eventually  # noqa: E402
from support.installed import Space, install, model_space  # noqa: E402
from support.tiny_llava import CHECKPOINT  # noqa: E402

START_SECONDS = 600.0
POLL_SECONDS = 0.1


def main() -> int:
    """Measure, print, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    default = Path(__file__).parent / "results/apply_to_server.json"
    parser.add_argument("--output", type=Path, default=default)
    arguments = parser.parse_args()
    seconds = measure(arguments.rounds)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    result = {
        "command": f"bench/store/apply_to_server.py --rounds {arguments.rounds}",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "what": "seconds from apply until the container of the server runs",
        "median_seconds": {name: round(value, 1) for name, value in medians.items()},
        "cached_relative_to_first": round(medians["cached"] / medians["first build"], 2),
        "seconds": {name: [round(one, 2) for one in values] for name, values in seconds.items()},
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    arguments.output.write_text(text)
    return 0


def measure(rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each round, by whether the engine had to be built."""
    seconds: dict[str, list[float]] = {"first build": [], "cached": []}
    with ExitStack() as stack:
        cluster = stack.enter_context(
            clusters.given_or_own(f"bench-{os.getpid()}", control_plane_only=False)
        )
        space = stack.enter_context(model_space(install(cluster), "bench-cached"))
        space.upload(CHECKPOINT, "tiny")
        for number in range(rounds):
            batch = {"maxBatchSize": number + 2}
            for name, values in seconds.items():
                model = f"{name.split()[0]}-{number}"
                values.append(until_started(space, space.model(model, "tiny", engine=batch)))
                reused = "reusedFrom" in space.read(model)["status"]["build"]
                assert reused == (name == "cached"), space.read(model)["status"]
            space.kubectl("delete", "mmm", "--all", "--timeout=60s")
    return seconds


def until_started(space: Space, model: dict[str, Any]) -> float:
    """Apply a model; return the seconds until its server's container runs."""
    chosen = f"{labels.MODEL}={model['metadata']['name']},{labels.APP_COMPONENT}=server"
    began = time.monotonic()
    space.apply(model)

    def runs() -> bool:
        pods = space.get("pods", "-l", chosen).get("items", [])
        states = [
            state
            for pod in pods
            for kind in ("initContainerStatuses", "containerStatuses")
            for state in pod["status"].get(kind, ())
        ]
        return any(one["name"] == "server" and "running" in one["state"] for one in states)

    eventually(runs, seconds=START_SECONDS, pause_seconds=POLL_SECONDS)
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
