"""What a build costs that finds its engine in the store, beside the first one.

    python bench/build/cached_engine.py > bench/build/results/cached_engine.json

Two models, each built by `mm-runtime build` in a process of its own, first into an empty store and
then again: a tiny LLaVA on the Reference engine (export and verification of its vision half, with
torch), and a staged checkpoint of 1 GiB (fetch and digests). The second build reads the manifest
and every file's digest, so its cost grows with the engine's bytes and not with what made them.
Ratios are of one run; on a busy machine the seconds are not worth much by themselves.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from mm_runtime.inspect.checkpoint import InspectOptions, inspect  # noqa: E402 (as below)
from support.build_plans import build_plan  # noqa: E402 (found through the line above)
from support.build_sites import Site  # noqa: E402
from support.hollow_checkpoint import write_safetensors  # noqa: E402
from support.random_llava import write_random_llava  # noqa: E402
from support.staging_sites import StagingSite, staging_site, write_source  # noqa: E402

ROUNDS = 3
DEADLINE_SECONDS = 600
GIB = 1 << 30


def main() -> None:
    """Build twice, print JSON."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        checkpoint = write_random_llava(folder / "llava")
        tiny = Site(checkpoint, build_plan(inspect(checkpoint, InspectOptions())), folder / "tiny")
        source = write_source(folder / "source", "qwen2-vl")
        write_safetensors(source / "model.safetensors", {"a": ("F16", (GIB // 2,))})
        (folder / "staged").mkdir()
        staged = staging_site(folder / "staged", source=source)
        results = {
            "reference-tiny-llava": measured(tiny, folder),
            "pytorch-staged-1-gib": measured(staged, folder),
        }
    print(
        json.dumps(
            {
                "command": "python bench/build/cached_engine.py",
                "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()}",
                "rounds": ROUNDS,
                **results,
            },
            indent=1,
        )
    )


def measured(site: Site | StagingSite, folder: Path) -> dict[str, float]:
    """Return seconds of the first and the second build, and their ratio, in medians."""
    first, second = [], []
    for number in range(ROUNDS):
        store = folder / f"{site.plan.fingerprint[:8]}-{number}" / "store"
        store.mkdir(parents=True)
        here = replace(site, store=store)
        first.append(timed(here))
        second.append(timed(here))
    ratios = [late / early for early, late in zip(first, second, strict=True)]
    return {
        "first_seconds_median": round(statistics.median(first), 2),
        "cached_seconds_median": round(statistics.median(second), 2),
        "cached_to_first_ratio_median": round(statistics.median(ratios), 4),
    }


def timed(site: Site | StagingSite) -> float:
    """Run one build in a process of its own; return its seconds."""
    command = [sys.executable, "-m", "mm_runtime", *site.arguments]
    began = time.perf_counter()
    subprocess.run(
        command,
        check=True,
        timeout=DEADLINE_SECONDS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
