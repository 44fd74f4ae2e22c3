"""How fast a store digests, and how a fetch from S3 compares with a plain copy.

Everything is measured in turns within one run, so that a busy machine slows all of it alike; what
counts are the ratios, and the work done by a second of processor; the best round of each way comes
nearest to a machine that does nothing else. All ways write the same bytes to
the same file system and wait for the disk. The S3 server is versitygw on this machine.

A fetch does more than a copy: it takes the SHA-256 that the manifest needs. And its server takes
part of the same processors. So two more ways stand beside it: the same copy and then its SHA-256,
which is what a fetch replaces, and curl, which shows what this server gives to any client.

    .venv/bin/python bench/store/throughput.py [--mebibytes 512] [--rounds 5] [--output FILE]
"""

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import obstore  # noqa: E402 (the line above is for the last import)

from mm_api.documents.engine_manifest import EngineFile  # noqa: E402
from mm_runtime.base.buckets import open_bucket  # noqa: E402
from mm_runtime.base.durable import sha256  # noqa: E402
from mm_runtime.base.resumable_file import ResumableFile  # noqa: E402
from mm_runtime.sources.address import BucketAddress  # noqa: E402
from mm_runtime.sources.bucket import BucketSource  # noqa: E402
from mm_runtime.sources.origin import DirectoryOrigin  # noqa: E402
from mm_runtime.store.bucket import BucketStore  # noqa: E402
from support.s3_server import serving_s3  # noqa: E402 (the server that the tests use)

MIB = 1 << 20

Seconds = dict[str, list[float]]


def main() -> int:
    """Measure, print, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results/store.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as scratch:
        seconds, cpu = measure(Path(scratch), arguments.mebibytes, arguments.rounds)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    result = {
        "command": f"bench/store/throughput.py --mebibytes {arguments.mebibytes}"
        f" --rounds {arguments.rounds}",
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "mebibytes_a_second": {
            name: round(arguments.mebibytes / value) for name, value in medians.items()
        },
        "speed_relative_to_copy": relative(seconds, "copy"),
        "speed_relative_to_copy_then_digest": relative(seconds, "copy, then digest"),
        "best_mebibytes_a_second": {
            name: round(arguments.mebibytes / min(values)) for name, values in seconds.items()
        },
        "mebibytes_a_cpu_second": {
            name: round(arguments.mebibytes / statistics.median(values))
            for name, values in cpu.items()
        },
        "seconds": {name: [round(one, 3) for one in values] for name, values in seconds.items()},
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text)
    return 0


def relative(seconds: Seconds, base: str) -> dict[str, float]:
    """Return each way's speed as a share of another's: the median over the rounds."""
    return {
        name: round(
            statistics.median(
                plain / value for plain, value in zip(seconds[base], values, strict=True)
            ),
            2,
        )
        for name, values in seconds.items()
    }


def measure(scratch: Path, mebibytes: int, rounds: int) -> tuple[Seconds, Seconds]:
    """Return seconds of each round by what was done, and the client's processor seconds."""
    source = scratch / "source"
    source.mkdir()
    weights = source / "model.safetensors"
    block = random.Random(0).randbytes(MIB)  # noqa: S311 (no secret)
    with weights.open("wb") as file:
        for number in range(mebibytes):
            file.write(number.to_bytes(8, "little") + block[8:])
    digest = sha256(weights)
    with serving_s3(scratch / "s3") as server:
        server.upload(source, "bench", "checkpoint")
        store = BucketStore(BucketAddress("bench", "checkpoint"), server.environment)
        entry = EngineFile(path=weights.name, size=weights.stat().st_size, sha256=digest)
        store.upload("0" * 64, entry, _blocks(weights))
        remote = BucketSource(BucketAddress("bench", "checkpoint"), server.environment)
        listed = next(file for file in remote.files() if file.name == weights.name)
        local = DirectoryOrigin({weights.name: weights})
        client = open_bucket("bench", "SOURCE", server.environment)
        signed = obstore.sign(client, "GET", f"checkpoint/{weights.name}", timedelta(hours=2))
        copy = scratch / "copy"

        def pull() -> None:
            with ResumableFile(copy) as writer:
                for piece in store.chunks("0" * 64, entry):
                    writer.write(piece)
                writer.finish()

        def then_digest(copied: Callable[[], None]) -> Callable[[], object]:
            def both() -> object:
                copied()
                return sha256(copy)

            return both

        ways: dict[str, Callable[[], object]] = {
            "digest": lambda: sha256(weights),
            "copy": lambda: _copy(weights, copy),
            "copy, then digest": then_digest(partial(_copy, weights, copy)),
            "fetch from a directory": lambda: local.copy(weights.name, copy),
            "fetch from S3": lambda: remote.download(listed, copy),
            "pull from a store in S3": pull,
            "curl from S3, nothing kept": lambda: _curl(signed, Path(os.devnull)),
            "curl from S3": lambda: _curl(signed, copy),
            "curl from S3, then digest": then_digest(partial(_curl, signed, copy)),
        }
        seconds: Seconds = {name: [] for name in ways}
        cpu: Seconds = {name: [] for name in ways}
        for number in range(rounds):
            # In another order each time: the disk of a shared machine remembers who came before.
            order = random.Random(number).sample(sorted(ways), len(ways))  # noqa: S311
            for name in order:
                way = ways[name]
                copy.unlink(missing_ok=True)
                os.sync()
                began, worked = time.perf_counter(), _worked()
                way()
                seconds[name].append(time.perf_counter() - began)
                cpu[name].append(_worked() - worked)
                assert not copy.exists() or sha256(copy) == digest
    return seconds, cpu


def _worked() -> float:
    """Return processor seconds of this process and of those it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _blocks(path: Path) -> "list[bytes]":
    content = path.read_bytes()
    return [content[start : start + 16 * MIB] for start in range(0, len(content), 16 * MIB)]


def _copy(source: Path, target: Path) -> None:
    """Copy as cp does, and wait for the disk as a fetch does."""
    with source.open("rb") as reader, target.open("wb") as writer:
        shutil.copyfileobj(reader, writer, 4 * MIB)
        writer.flush()
        os.fsync(writer.fileno())


def _curl(url: str, target: Path) -> None:
    subprocess.run(["curl", "--silent", "--fail", "-o", target, url], check=True, timeout=600)
    if target.is_file():
        with target.open("rb") as reader:
            os.fsync(reader.fileno())


if __name__ == "__main__":
    sys.exit(main())
