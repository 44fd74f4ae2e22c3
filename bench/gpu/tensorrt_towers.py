"""Vision halves by TensorRT against torch: build, size, memory, images a second, distance.

`python bench/gpu/towers.py --engine TensorRT` runs it. Both ways are those of
`multimodal_encoders`: torch computes in float16 with CUDA graphs where images are squares, else in
float32.
"""

import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from real_towers import Exported, batch_of

from mm_runtime.engine_build.commands.build_vision import build_engine
from mm_runtime.serving.device import wait_for
from mm_runtime.serving.encode.vision.runner import Runner
from mm_runtime.serving.encode.vision.session import open_runner
from mm_runtime.serving.encode.vision.torch_runner import TorchRunner

BATCHES = (1, 2, 4, 8, 16)
FEWEST, SECONDS = 8, 1.5
"""Runs of one batch, and after which time no more begin: MLLAMA's in float32 take a second each."""


def rates(
    runner: Runner, sample: dict[str, Any], device: torch.device, batch: int, times: int
) -> tuple[float, float]:
    """Return images a second of runs that are waited for, and of runs that are only started."""
    given = batch_of(sample, batch)
    for _ in range(3):
        runner(given)
    taken = []
    for _ in range(times):
        wait_for(device)
        began = time.perf_counter()
        runner(given)
        wait_for(device)
        taken.append(time.perf_counter() - began)
        if len(taken) >= FEWEST and sum(taken) > SECONDS:
            break
    on_gpu: dict[str, Any] = {
        name: torch.from_numpy(np.ascontiguousarray(one)).to(device) for name, one in given.items()
    }
    runner(on_gpu)
    wait_for(device)
    began = time.perf_counter()
    for _ in taken:
        runner(on_gpu)
    wait_for(device)
    queued = (time.perf_counter() - began) / len(taken)
    return round(batch / statistics.median(taken), 1), round(batch / queued, 1)


def measured(
    runner: Runner, one: Exported, device: torch.device, batches: list[int], times: int
) -> dict[str, Any]:
    """Return rates, and the distance to float32."""
    sample, wanted = one.sample()
    found = np.concatenate(
        [_rows(runner({k: v[at : at + 1] for k, v in sample.items()})) for at in range(2)]
    )
    apart = found - wanted
    rated = {batch: rates(runner, sample, device, batch, times) for batch in batches}
    return {
        "relative_distance": float(f"{np.linalg.norm(apart) / np.linalg.norm(wanted):.3g}"),
        "largest_distance": float(f"{np.abs(apart).max():.3g}"),
        "images_per_second": {batch: waited for batch, (waited, _) in rated.items()},
        "without_copies": {batch: started for batch, (_, started) in rated.items()},
    }


def _rows(features: Any) -> Any:
    return features if isinstance(features, np.ndarray) else features.float().cpu().numpy()


def built(one: Exported, *, rebuild: bool) -> dict[str, Any]:
    """Return what building an engine took; it is beside the exported model, built unless it is."""
    record = one.folder / "build.json"
    if not record.is_file():
        found = {"build": _build(one, b"")}
        if rebuild:
            cache = (one.folder / "timing.cache").read_bytes()
            found["build_with_timing_cache"] = _build(one, cache)
        record.write_text(json.dumps(found))
    known: dict[str, Any] = json.loads(record.read_text())
    return known


def _build(one: Exported, measured_before: bytes) -> dict[str, Any]:
    import tensorrt  # type: ignore[import-not-found] # noqa: PLC0415 - not on this path elsewhere

    vision = one.facts.vision
    assert vision is not None
    began = time.perf_counter()
    engine, after = build_engine(
        tensorrt, one.folder / "model.onnx", one.plan, vision, measured_before
    )
    seconds = time.perf_counter() - began
    (one.folder / "model.engine").write_bytes(engine)
    (one.folder / "timing.cache").write_bytes(after)
    return {"build_s": round(seconds, 1), "size_bytes": len(engine)}


def compared(one: Exported, device: torch.device, times: int, *, rebuild: bool) -> dict[str, Any]:
    """Return both ways of one family."""
    plain, largest = one.plain, one.plan.max_batch_size
    batches = [batch for batch in BATCHES if batch <= largest]
    result: dict[str, Any] = {"export": one.record, **built(one, rebuild=rebuild)}
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    runner: Any = open_runner("TensorRT", one.folder, keeps=plain, graphs=largest if plain else 0)
    wait_for(device)
    result["memory_bytes"] = free - torch.cuda.mem_get_info()[0]
    result["context_bytes"] = runner.engine.memory_bytes
    result["TensorRT"] = measured(runner, one, device, batches, times)
    if plain:
        started = open_runner("TensorRT", one.folder, keeps=True)
        result["TensorRT, no graphs"] = measured(started, one, device, batches, times)
        del started
    del runner
    torch.cuda.empty_cache()
    theirs = TorchRunner(
        one.folder / "model.pt2",
        device=device,
        keeps=plain,
        half=plain,
        graphs=largest if plain else 0,
    )
    result["Torch"] = measured(theirs, one, device, batches, times)
    return result


def all_compared(
    exports: dict[str, Exported], device: torch.device, times: int, target: Path
) -> dict[str, Any]:
    """Return all families; written after each, so that a run that is cut has its part."""
    found: dict[str, Any] = {}
    for number, (family, one) in enumerate(exports.items()):
        try:
            found[family] = compared(one, device, times, rebuild=number == 0)
        except Exception as error:  # noqa: BLE001 - the other families are measured
            found[family] = {"error": f"{type(error).__name__}: {error}"}
        print(family, json.dumps(found[family]), flush=True)
        target.with_suffix(".part").write_text(json.dumps(found))
    return found
