"""From a checkpoint to a server: inspected, planned by the operator's own code, built, served."""

import base64
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from gpu_record import machine, processes_on_gpu
from PIL import Image

from mm_api.documents.model_facts import InspectResult
from mm_api.documents.serving_plan import ServingPlan
from mm_api.v1alpha1 import MultimodalModelSpec
from mm_operator.model import EnginePlan
from mm_operator.plan.engine.plan import Refusal, plan_engine
from mm_operator.plan.engine.request import Inputs
from mm_operator.plan.engine.tables import gpu_of
from support.tiny_llava import BuiltEngine

BUILD_SECONDS = 540
ANSWER_SECONDS = 120
SOURCE = {"source": {"persistentVolumeClaim": {"claimName": "checkpoints"}}}


@dataclass(frozen=True)
class Site:
    """A built engine and the plan that it is served by."""

    engine: BuiltEngine
    plan: EnginePlan
    folder: Path

    def served_by(self, name: str, **changes: object) -> BuiltEngine:
        """Return the engine with another serving plan: fields of the plan, changed."""
        plan = ServingPlan.from_json(self.engine.serving.read_bytes())
        folder = self.folder / name
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(plan.model_copy(update=changes).to_json())
        return BuiltEngine(self.engine.directory, folder / "plan.json")


def product() -> str:
    """Return this machine's GPU as NVIDIA's device plug-in labels a node with it."""
    kind = str(machine()["gpu"]).partition(",")[0].rpartition(" x ")[2]
    return kind.replace(" ", "-")


def planned(checkpoint: Path, *, device: str, spec: Mapping[str, Any]) -> EnginePlan:
    """Return the operator's plan of a checkpoint on the Reference engine.

    Args:
        checkpoint: its folder.
        device: CPU or CUDA.
        spec: parts of `spec` beside source, backend and GPU.
    """
    count = 1 if device == "CUDA" else 0
    runtime = {"gpu": {"count": count}, **spec.get("runtime", {})}
    text = run_mm("inspect", "--source", checkpoint)
    facts = InspectResult.from_json(text).facts
    assert facts is not None, text
    found = plan_engine(
        Inputs(
            model="bench",
            spec=MultimodalModelSpec.model_validate({"model": SOURCE, **spec, "runtime": runtime}),
            facts=facts,
            builder_version="1",
            gpu=gpu_of(product()) if count else None,
        )
    )
    assert not isinstance(found, Refusal), found.problems
    return found


def make_site(folder: Path, checkpoint: Path, *, device: str, spec: Mapping[str, Any]) -> Site:
    """Plan and build a checkpoint under a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = planned(checkpoint, device=device, spec=spec)
    (folder / "plan.json").write_text(plan.build_plan.to_json())
    (folder / "serving.json").write_text(plan.serving_plan.to_json())
    store = folder / "store"
    run_mm("build", "--plan", folder / "plan.json", "--source", checkpoint, "--store", store)
    directory = store / "engines" / plan.build_plan.fingerprint
    return Site(BuiltEngine(directory, folder / "serving.json"), plan, folder)


def run_mm(*arguments: str | Path) -> str:
    """Run `mm-runtime` and return what it prints.

    Raises:
        RuntimeError: it failed; holds the end of its log.
    """
    command = [sys.executable, "-m", "mm_runtime", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stderr[-6000:]}")
    return done.stdout


def noise(number: int, side: int) -> bytes:
    """Return a PNG of noise; no two numbers give the same."""
    pixels = np.random.default_rng(number).integers(0, 255, (side, side, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def chat(
    url: str, model: str, text: str, images: Sequence[bytes], *, tokens: int, stream: bool = False
) -> dict[str, Any]:
    """Return the body of a chat request with images as data URLs, for `send`."""
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": _data_url(one)}} for one in images
    ]
    return {
        "url": f"{url}/v1/chat/completions",
        "json": {
            "model": model,
            "messages": [
                {"role": "user", "content": [*parts, {"type": "text", "text": text}]},
            ],
            "max_tokens": tokens,
            "temperature": 0,
            **({"stream": True} if stream else {}),
        },
    }


def _data_url(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode()


def send(client: httpx.Client, request: Mapping[str, Any]) -> str:
    """Return the text of an answer.

    Raises:
        httpx.HTTPStatusError: it is an error.
    """
    answer = client.post(request["url"], json=request["json"], timeout=ANSWER_SECONDS)
    answer.raise_for_status()
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


def send_all(requests: Sequence[Mapping[str, Any]], together: int) -> list[str | Exception]:
    """Send requests, so many at a time; return texts or errors in their order."""
    results: list[str | Exception] = [RuntimeError("not sent")] * len(requests)
    waiting = list(range(len(requests)))
    lock = threading.Lock()

    def work() -> None:
        with httpx.Client() as client:
            while True:
                with lock:
                    if not waiting:
                        return
                    at = waiting.pop(0)
                try:
                    results[at] = send(client, requests[at])
                except Exception as error:  # noqa: BLE001 - counted by the caller
                    results[at] = error

    threads = [threading.Thread(target=work, daemon=True) for _ in range(together)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + ANSWER_SECONDS * 2
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return results


def stream_times(request: Mapping[str, Any]) -> dict[str, float]:
    """Return the milliseconds to the first text of a stream, and between pieces of text."""
    with httpx.Client() as client:
        # A client loads certificates when it is made, for 60 to 200 ms on two busy cores.
        began = time.perf_counter()
        moments = _text_moments(client, request)
    gaps = sorted(later - sooner for sooner, later in pairwise(moments))
    return {
        "first_text_ms": round((moments[0] - began) * 1e3, 1),
        "gap_ms": round(gaps[len(gaps) // 2] * 1e3, 2) if gaps else 0.0,
        "pieces": len(moments),
    }


def _text_moments(client: httpx.Client, request: Mapping[str, Any]) -> list[float]:
    with client.stream(
        "POST",
        request["url"],
        json={**request["json"], "stream": True},
        timeout=ANSWER_SECONDS,
    ) as response:
        return [time.perf_counter() for line in response.iter_lines() if '"content"' in line]


def gpu_bytes_by_process(root: int, folder: Path) -> dict[str, int]:
    """Return the GPU memory of a server's processes by the driver: name and id -> bytes.

    Args:
        root: the process that started all of them but MPS's server, which belongs to a daemon.
        folder: of the server, which its daemon has its pipes in.
    """
    below = {root, *(one.pid for one in psutil.Process(root).children(recursive=True))}
    for one in psutil.process_iter():
        if one.name() == "nvidia-cuda-mps-server":
            pipes = one.environ().get("CUDA_MPS_PIPE_DIRECTORY", "")
            below |= {one.pid} if pipes.startswith(str(folder)) else set()
    listed = processes_on_gpu().items()
    return {f"{process_name(pid)} {pid}": used for pid, used in listed if pid in below}


def host_bytes_by_process(root: int) -> dict[str, dict[str, int]]:
    """Return the host memory of a server's processes by the kernel: name and id -> field -> bytes.

    `VmHWM` is the most so far, mapped files included; `RssAnon` and `RssShmem` are what it has now
    of its own and in /dev/shm, which a container is charged with.
    """
    found = {}
    for one in (psutil.Process(root), *psutil.Process(root).children(recursive=True)):
        lines = Path(f"/proc/{one.pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        found[f"{process_name(one.pid)} {one.pid}"] = {
            name: int(fields[name].split()[0]) << 10
            for name in ("VmHWM", "RssAnon", "RssFile", "RssShmem")
        }
    return found


def process_name(pid: int) -> str:
    """Return a Triton model's name, or a program's."""
    words = psutil.Process(pid).cmdline()
    # A stub's third argument names its model's file: .../tensorrt_llm/1/model.py
    models = [word.split("/")[-3] for word in words if word.endswith("/model.py")]
    return models[0] if models else Path(words[0]).name if words else "?"


def environment(**more: str) -> None:
    """Set variables of this process, which those it starts inherit."""
    os.environ.update(more)
