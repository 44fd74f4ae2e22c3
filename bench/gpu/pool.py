"""Are the bits of every prompt table the same where it leaves and where it arrives?

    python bench/gpu/pool.py --out bench/gpu/results/pool.json

A model that hardly computes with the prompt table of a 7 B model (S = 4,718,592 bytes), CUDA pools
of k S, clients 1 to 64 at a time, each image another one; through `ensemble` (the gateway) and, at
the planned size, through `tensorrt_llm_bls`. Both ends note the sum of each table's bits
(bench/gpu/sums). A request whose table found the pool full must be refused, never answered.
"""

import argparse
import json
import os
import tempfile
import threading
from collections import Counter
from pathlib import Path

import numpy as np
from checkpoints import write_checkpoint
from gpu_record import RESULTS, write
from sites import chat, environment, make_site, noise, send_all

from mm_api.documents.serving_plan import MemoryPools, ServingPlan
from support.ensemble import Ensemble
from support.real_gateway import run_pair

SUMS = Path(__file__).parent / "sums"
SLACK_BYTES = 64 << 10
BATCH = 16
PLANNED = "planned"
TOKENS = 16


def spec(concurrency: int) -> dict[str, object]:
    """Return the spec of a model that lets so many requests in."""
    return {
        "engine": {"maxBatchSize": BATCH, "maxImagesPerRequest": 1, "maxSeqLen": 1024},
        "vision": {"engine": "Torch"},
        "runtime": {"maxConcurrency": concurrency, "maxQueueSize": 64, "blsInstances": 2},
        "gateway": {"maxQueueSize": 64},
    }


def read_sums(folder: Path) -> list[dict[str, object]]:
    """Return what both ends noted."""
    return [
        json.loads(line)
        for file in sorted(folder.glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]


def judged(notes: list[dict[str, object]], device: str) -> dict[str, int]:
    """Return how many tables arrived, where, and how many had bits that never left."""
    left = Counter(one["sum"] for one in notes if one["side"] == "encoder")
    came = [one for one in notes if one["side"] == "language model"]
    other = Counter(one["sum"] for one in came) - left
    return {
        "tables_left": sum(left.values()),
        "tables_read": len(came),
        "tables_with_other_bits": sum(other.values()),
        "arrived_on_gpu": sum(one["arrived"] == "GPU" for one in came),
        "arrived_on_host": sum(one["arrived"] == "host" for one in came),
        "refused_pool_full": sum(one["side"] == "refused" for one in notes),
        "left_elsewhere_than_planned": sum(
            one["device"] != device for one in notes if one["side"] == "encoder"
        ),
    }


def through_bls(url: str, side: int, count: int, together: int) -> int:
    """Send requests with images to `tensorrt_llm_bls`; return how many failed."""
    failed = []

    def query(first: int) -> None:
        with Ensemble(url, "tensorrt_llm_bls") as client:
            for number in range(first, count, together):
                pixels = np.random.default_rng(10_000 + number).integers(
                    0, 255, (1, 1, side, side, 3), dtype=np.uint8
                )
                try:
                    client.query(
                        "What is in the image?", image_bytes_input=pixels, max_tokens=4, stream=True
                    )
                except Exception as error:  # noqa: BLE001 - counted
                    failed.append(str(error))

    threads = [threading.Thread(target=query, args=(n,), daemon=True) for n in range(together)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    for text in failed[:2]:
        print("bls:", text[:400])
    return len(failed)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "pool.json")
    parser.add_argument("--device", default="CUDA")
    parser.add_argument("--shape", default="wide")
    parser.add_argument("--pools", nargs="+", default=["1", "2", "3", "4", PLANNED])
    parser.add_argument("--together", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--requests", type=int, default=2, help="of each client")
    options = parser.parse_args()
    side = 336 if options.shape == "wide" else 56
    runs: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="pool-") as temporary:
        folder = Path(temporary)
        maker = "cuda" if options.device == "CUDA" else "cpu"
        checkpoint = write_checkpoint(folder / "checkpoint", options.shape, device=maker)
        site = make_site(
            folder / "site",
            checkpoint,
            device=options.device,
            spec=spec(max(options.together)),
        )
        plan = ServingPlan.from_json(site.engine.serving.read_bytes())
        size = site.plan.pool.table_bytes_per_request
        for name in options.pools:
            cuda = plan.pools.cuda_bytes if name == PLANNED else int(name) * size + SLACK_BYTES
            pools = MemoryPools(
                cuda_bytes=cuda, pinned_bytes=plan.pools.pinned_bytes, shm_bytes=1 << 30
            )
            engine = site.served_by(f"plan-{name}", pools=pools, sharing=None)
            work, sums = folder / f"serve-{name}", folder / f"sums-{name}"
            work.mkdir()
            sums.mkdir()
            path = os.environ.get("PYTHONPATH", "")
            environment(MM_SUMS=str(sums), PYTHONPATH=f"{SUMS}:{path}" if path else str(SUMS))
            with run_pair(engine, work) as pair:
                # What the gateway sends before Ready is noted too.
                failed, sent = Counter[str](), 0
                for together in options.together:
                    requests = [
                        chat(
                            pair.url,
                            pair.model,
                            "What is in the image?",
                            [noise(1000 * together + number, side)],
                            tokens=TOKENS,
                        )
                        for number in range(options.requests * together)
                    ]
                    sent += len(requests)
                    for one in send_all(requests, together):
                        if isinstance(one, Exception):
                            failed[str(one).split("\n")[0][:120]] += 1
                bls = None
                if name == PLANNED:
                    bls = {"requests": 16, "failed": through_bls(pair.triton_grpc, side, 16, 4)}
                alive = pair.server.poll() is None
                log = pair.server_log.read_text(errors="replace")
            notes = read_sums(sums)
            environment(PYTHONPATH=path)
            runs[name] = {
                "pool_bytes": cuda,
                "requests": sent,
                "failed": dict(failed),
                "through_bls": bls,
                "server_alive": alive,
                "not_handed_over": log.count("could not be handed over"),
                **judged(notes, "cuda" if options.device == "CUDA" else "cpu"),
            }
            print(name, runs[name], flush=True)
            if not notes:
                print(log[-3000:])
    result = {
        "table_bytes": size,
        "planned_pool_bytes": plan.pools.cuda_bytes,
        "planned_in_tables": round(plan.pools.cuda_bytes / size, 2),
        "clients_at_a_time": options.together,
        "pools": runs,
    }
    write(options.out, "python bench/gpu/pool.py", result)


if __name__ == "__main__":
    main()
