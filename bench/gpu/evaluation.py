"""Is an engine on CUDA ready only where it answers like its checkpoint?

    python bench/gpu/evaluation.py --cases tiny tiny:weights tiny:tokenizer 1.3b

Each case is planned by the operator's code with `spec.build.evaluation` as it is by default, so
that the build keeps the checkpoint's answers from the processor, and served on CUDA. `:weights` and
`:tokenizer` change one file after the build and its digest in the manifest: such a pod must never
be ready. The others must.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from checkpoints import made
from gpu_record import RESULTS, write
from sites import Site, make_site

from support import damaged_engines
from support.damaged_engines import damaged
from support.real_gateway import run_pair
from support.reports import report_of
from support.tiny_llava import CHECKPOINT

CASES = ["tiny", "tiny:weights", "tiny:tokenizer", "1.3b"]
SPEC = {
    "engine": {"maxBatchSize": 8, "maxImagesPerRequest": 1, "maxSeqLen": 1024},
    "vision": {"engine": "Torch"},
}
READY_SECONDS = 20
"""After the comparison: the gateway has a warm-up request before it."""

DAMAGES: dict[str, Callable[[Path], Path]] = {
    "weights": damaged_engines.weights,
    "tokenizer": damaged_engines.tokenizer,
}


def becomes_ready(url: str) -> bool:
    """Return whether a gateway that has compared its server is ready within `READY_SECONDS`."""
    deadline = time.monotonic() + READY_SECONDS
    while httpx.get(f"{url}/readyz", timeout=10).status_code != httpx.codes.OK:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


def evaluated(site: Site, damage: str, folder: Path) -> dict[str, Any]:
    """Return what a pod found about its engine, and whether it is ready."""
    engine = site.engine
    folder.mkdir(parents=True)
    if damage:
        engine = damaged(engine, folder, DAMAGES[damage])
    began = time.monotonic()
    with run_pair(engine, folder, awaited=False) as pair:
        report = report_of(pair.triton)
        seconds = time.monotonic() - began
        ready = becomes_ready(pair.url)
    first = report.first_difference
    return {
        "reported_after_seconds": round(seconds, 1),
        "ready": ready,
        "prompts": report.prompts,
        "failed_prompts": report.failed_prompts,
        "tokens": report.tokens,
        "agreed": report.agreed,
        "near_ties": report.near_ties,
        "log_prob_distance": report.log_prob_distance,
        "first_distance": None if first is None else first.distance,
        "first_bound": None if first is None else first.bound,
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "evaluation.json")
    parser.add_argument("--device", default="CUDA")
    parser.add_argument("--cases", nargs="+", default=CASES)
    options = parser.parse_args()
    sites: dict[str, Site] = {}
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="e-") as temporary:
        work = Path(temporary)
        for case in options.cases:
            shape, _, damage = case.partition(":")
            if shape not in sites:
                where = "cuda" if options.device == "CUDA" else "cpu"
                checkpoint = (
                    CHECKPOINT if shape == "tiny" else made(work / "made", shape, device=where)
                )
                began = time.monotonic()
                sites[shape] = make_site(
                    work / "sites" / shape, checkpoint, device=options.device, spec=SPEC
                )
                built = round(time.monotonic() - began, 1)
            found = evaluated(sites[shape], damage, work / "served" / case.replace(":", "-"))
            result[case] = found if damage else {"build_seconds": built, **found}
            write(options.out, "python bench/gpu/evaluation.py", {"cases": result})


if __name__ == "__main__":
    main()
