"""What do clients see when a process of a server dies, or its GPU fails, and how long?

    python bench/gpu/faults.py --out bench/gpu/results/faults.json

tiny-llava on CUDA behind Triton and the gateway, four clients send images without pause. Each
process of the server gets SIGKILL once, the two that compute lose their GPU once (bench/gpu/
breaking), and a server is started where another program has left too little memory. Counted: the
status of every answer, whether each 503 has Retry-After, seconds until an answer is right again,
and what the driver says is in use before, afterwards and at the end.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
from gpu_record import RESULTS, driver, write
from sites import Site, chat, gpu_bytes_by_process, make_site

from support.real_gateway import PROGRAM, RealGateway, run_pair
from support.tiny_llava import CHECKPOINT, samples

SPEC = {
    "engine": {"maxBatchSize": 8, "maxImagesPerRequest": 1},
    "vision": {"engine": "Torch"},
    "build": {"evaluation": "Off"},
}
CLIENTS = 4
BACK_SECONDS = 120
RUN_SECONDS = 500
STEADY_SECONDS = 3.0
"""Of right answers before a fault, and after it."""

BREAKING = Path(__file__).parent / "breaking"
MIB = 1 << 20


class Load:
    """Clients that send without pause, or with one between requests, and what they get."""

    def __init__(self, url: str, model: str, pause_seconds: float = 0.0) -> None:
        self._pause = pause_seconds
        one = samples()[0]
        self._request = chat(url, model, one.question, [one.image.read_bytes()], tokens=24)
        self._right = one.answer
        self._stop = threading.Event()
        self.seen: list[tuple[float, str, bool]] = []
        """When an answer came, its status, and whether it has Retry-After."""

        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._stop.is_set():
                waits = False
                try:
                    answer = client.post(self._request["url"], json=self._request["json"])
                    said, waits = str(answer.status_code), "retry-after" in answer.headers
                    if said == "200":
                        text = answer.json()["choices"][0]["message"]["content"]
                        said = "200" if text == self._right else "200, wrong"
                except httpx.HTTPError as error:
                    said = type(error).__name__
                self.seen.append((time.monotonic(), said, waits))
                time.sleep(self._pause if said == "200" else max(self._pause, 0.1))

    def wait_right(self, since: float) -> float:
        """Return when the first right answer after a moment came that errors do not follow."""
        deadline = time.monotonic() + BACK_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.2)
            later = [one for one in self.seen if one[0] > since]
            wrong = [at for at, said, _ in later if said != "200"]
            right = [at for at, said, _ in later if said == "200" and at > max(wrong, default=0)]
            if right and time.monotonic() - right[0] > STEADY_SECONDS:
                return right[0]
        raise TimeoutError(f"no right answer: {Counter(one[1] for one in self.seen)}")

    def stop(self) -> None:
        """End the clients."""
        self._stop.set()
        for thread in self._threads:
            thread.join(70)


def pid_of(pair: RealGateway, name: str) -> int:
    """Return the process of a model, or the server's own."""
    for one in psutil.Process(pair.server.pid).children(recursive=True):
        words: list[str] = []
        with suppress(psutil.NoSuchProcess):  # gone, or a zombie, since the list was made
            words = one.cmdline()
        if any(f"/{name}/1/model.py" in word for word in words):
            return one.pid
        if name == "tritonserver" and words and Path(words[0]).name == name:
            return one.pid
    raise LookupError(name)


def kill(pair: RealGateway, name: str) -> None:
    """Send SIGKILL to a process of a server."""
    os.kill(pid_of(pair, name), signal.SIGKILL)


def fault(load: Load, used: Callable[[], int], strike: Callable[[], None]) -> dict[str, Any]:
    """Return what clients see around one fault; `used`: bytes that the driver counts."""
    load.wait_right(time.monotonic())
    before = used()
    struck = time.monotonic()
    strike()
    while not any(at > struck and said != "200" for at, said, _ in load.seen):
        if time.monotonic() > struck + BACK_SECONDS:
            raise TimeoutError("no client noticed the fault")
        time.sleep(0.05)
    back = load.wait_right(struck)
    during = [one for one in load.seen if struck < one[0] < back and one[1] != "200"]
    return {
        "statuses": dict(Counter(said for _, said, _ in during)),
        "unavailable_without_retry_after": sum(
            said == "503" and not waits for _, said, waits in during
        ),
        "back_seconds": round(back - struck, 1),
        "gpu_mib_before": before // MIB,
        "gpu_mib_after": used() // MIB,
    }


def used_by(pair: RealGateway) -> int:
    """Return the bytes of a server's processes on the GPU."""
    return sum(gpu_bytes_by_process(pair.server.pid, pair.server_log.parent).values())


@contextmanager
def serving(
    site: Site, folder: Path, program: Sequence[str] | None = None
) -> Iterator[tuple[RealGateway, Load, float]]:
    """Yield a server with its clients, and how long Ready took; `program`: as `run_pair` has it."""
    folder.mkdir()
    began = time.monotonic()
    with ExitStack() as stack:
        try:
            pair = stack.enter_context(run_pair(site.engine, folder, program=program))
        except RuntimeError as error:
            lines = (folder / "serve.log").read_text(errors="replace").splitlines()
            said = [line[:400] for line in lines if "rror" in line or "failed" in line]
            raise RuntimeError("\n".join(said[:30])) from error
        ready = time.monotonic() - began
        load = Load(pair.url, pair.model)
        try:
            yield pair, load, ready
        finally:
            load.stop()


def tried(call: Callable[[], object]) -> None:
    """Do what may fail; what comes after it is measured all the same."""
    try:
        call()
    except Exception:  # noqa: BLE001
        traceback.print_exc()


def kills(site: Site, folder: Path, names: list[str], found: dict[str, Any]) -> None:
    """Note what follows when processes get SIGKILL; a third death would end the container."""
    with serving(site, folder) as (pair, load, ready):
        for name in names:
            one = fault(load, partial(used_by, pair), partial(kill, pair, name))
            found[name] = {"ready_seconds": round(ready, 1), **one}


def losses(site: Site, folder: Path, flags: Path, result: dict[str, Any]) -> None:
    """Note what follows when the GPU of a process computes nothing more.

    The servers beside it look for no flags: the first process that sees one would take it.
    """
    path = os.pathsep.join(filter(None, (str(BREAKING), os.environ.get("PYTHONPATH"))))
    program = ("/usr/bin/env", f"MM_BREAKS={flags}", f"PYTHONPATH={path}", *PROGRAM)
    with serving(site, folder, program) as (pair, load, ready):
        for name in ("tensorrt_llm", "multimodal_encoders"):
            one = fault(load, partial(used_by, pair), (flags / name).touch)
            result["lost"][name] = {"ready_seconds": round(ready, 1), **one}
        log = pair.server_log.read_text(errors="replace").splitlines()
    said = [line for line in log if "the GPU computes nothing more" in line]
    result["lost_lines"] = said[:4]


def full(site: Site, folder: Path, free_mib: int) -> dict[str, Any]:
    """Return how a server ends that finds so much memory free, and what it says."""
    folder.mkdir()
    message = folder / "message"
    taken = (
        "import sys, torch; free, total = torch.cuda.mem_get_info(); "
        f"held = torch.empty(free - {free_mib << 20}, dtype=torch.uint8, device='cuda'); "
        "print('taken', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", taken], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "taken\n"
        began = time.monotonic()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "mm_runtime", "serve"),
                *("--manifest", site.engine.manifest, "--serving", site.engine.serving),
                *("--repository", folder / "triton" / "repository"),
                *("--http-port", "18000", "--grpc-port", "18001", "--metrics-port", "18002"),
                *("--gateway-port", "18080", "--termination-log", message),
            ],
            capture_output=True,
            timeout=300,
            check=False,
        )
        other.stdin.close()
    (folder / "log").write_bytes(done.stdout + done.stderr)
    return {
        "free_mib": free_mib,
        "exit_code": done.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "message": message.read_text().splitlines()[0] if message.exists() else "",
    }


def used_mib() -> int:
    """Return what the driver says is in use on the GPU."""
    return int(driver("--query-gpu=memory.used", "--format=csv,noheader,nounits")[0])


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "faults.json")
    parser.add_argument("--free-mib", type=int, nargs="+", default=[1000, 1400, 1800])
    options = parser.parse_args()
    idle = used_mib()
    result: dict[str, Any] = {"idle_mib": idle, "killed": {}, "lost": {}, "full": []}

    def keep() -> None:
        write(options.out, "python bench/gpu/faults.py", result)

    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        folder = Path(temporary)
        site = make_site(folder / "site", CHECKPOINT, device="CUDA", spec=SPEC)
        flags = folder / "flags"
        flags.mkdir()
        parts = {
            "a": ["tensorrt_llm", "multimodal_encoders"],
            "b": ["tritonserver", "preprocessing"],
        }
        with ThreadPoolExecutor(3) as pool:
            killed = [
                pool.submit(kills, site, folder / name, some, result["killed"])
                for name, some in parts.items()
            ]
            for one in (*killed, pool.submit(losses, site, folder / "c", flags, result)):
                tried(lambda: one.result(RUN_SECONDS))  # noqa: B023
                keep()
        result["left_mib"] = used_mib()
        for free in options.free_mib:
            tried(lambda: result["full"].append(full(site, folder / f"full-{free}", free)))  # noqa: B023
            keep()


if __name__ == "__main__":
    main()
