"""What does a decoding step of the language model take: kernel by kernel, and fused?

    python bench/gpu/speed.py --shapes 1.3b 7b --out bench/gpu/results/speed.json

In one process, without Triton: a step is the pass, its logits, the likeliest tokens and their copy
to the processor, at 660 positions; `gpu_ms` is the same without the copy, many steps in a row, so
that the processor is never waited for where it is faster. The roofline is what must be read
(weights, keys and values) over the data sheet's 3.35 TB/s. Also the pass of a prompt of 600 rows.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from checkpoints import SHAPES, Shape, write_checkpoint
from gpu_record import RESULTS, write

from mm_api.documents.serving_plan import Device
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.fused.opening import open_kernels
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import Part
from mm_runtime.serving.device import open_device, wait_for

BYTES_PER_SECOND = 3.35e12
"""H100 SXM, NVIDIA's data sheet."""

CONTEXT, PROMPT, POSITIONS, SLOTS = 660, 600, 1024, 32
BATCHES = (1, 8, 16, 32)
PART = 128
"""Rows of a prompt beside decoding requests, as `reference_engine.load` allows at the most."""

WAYS = ("kernel by kernel", "fused")


def median_ms(call: Callable[[], object], device: torch.device, times: int) -> float:
    """Return the median of so many calls, each complete on the device."""
    taken = []
    for _ in range(times):
        wait_for(device)
        began = time.perf_counter()
        call()
        wait_for(device)
        taken.append((time.perf_counter() - began) * 1e3)
    return round(float(statistics.median(taken)), 3)


def roofline_ms(shape: Shape, batch: int) -> float:
    """Return what reading weights, keys and values of a step takes at the least."""
    attention = 4 * shape.hidden * shape.hidden
    perceptron = 3 * shape.hidden * shape.inner
    weights = shape.layers * (attention + perceptron) + shape.hidden * shape.vocabulary
    cache = 2 * shape.layers * shape.hidden * CONTEXT * batch
    return round(float(2 * (weights + cache) / BYTES_PER_SECOND * 1e3), 3)


def queued_ms(call: Callable[[], object], device: torch.device, times: int) -> float:
    """Return the mean of so many calls that are started without waiting for any."""
    wait_for(device)
    began = time.perf_counter()
    for _ in range(times):
        call()
    wait_for(device)
    return round((time.perf_counter() - began) * 1e3 / times, 3)


def beside(
    model: LanguageModel, batch: int, rows: torch.Tensor, device: torch.device, times: int
) -> dict[str, float]:
    """Return a step of so many requests, one slot less, alone and beside part of a prompt."""
    tokens, positions = [5 + at for at in range(batch)][: SLOTS - 1], [CONTEXT] * batch
    positions = positions[: len(tokens)]
    part = Part(0, rows[:PART])
    alone = queued_ms(lambda: model.run(tokens, positions), device, times)
    both = queued_ms(lambda: model.run(tokens, positions, part), device, times)
    return {"alone_ms": alone, "beside_ms": both, "ratio": round(both / alone, 2)}


def measured(
    folder: Path, shape: Shape, *, way: str, name: Device, times: int
) -> dict[str, object]:
    """Return the times of one way to start a step."""
    device = open_device(name)
    began = time.monotonic()
    model = LanguageModel(
        Checkpoint(
            folder=folder,
            family="llava",
            dtype=shape.dtype,
            slots=SLOTS,
            max_length=POSITIONS,
            device=device,
            kernels=open_kernels(device) if way == "fused" else None,
        )
    )
    assert (model._fused is not None) == (way == "fused")  # noqa: SLF001 - what is measured
    wait_for(device)
    found: dict[str, object] = {"load_seconds": round(time.monotonic() - began, 1)}
    steps = {}
    for batch in BATCHES:
        tokens, positions = [5 + at for at in range(batch)], [CONTEXT] * batch

        def queued(tokens: list[int] = tokens, positions: list[int] = positions) -> torch.Tensor:
            passed = model.run(tokens, positions)
            if passed.likeliest is not None:  # computed in the pass itself
                return passed.likeliest.tokens
            return model.logits(passed.decoded).argmax(dim=-1)

        def step(queued: Callable[[], torch.Tensor] = queued) -> list[int]:
            return queued().tolist()

        for _ in range(3):
            step()
        took = median_ms(step, device, times)
        least = roofline_ms(shape, batch)
        without = queued_ms(queued, device, times)
        steps[batch] = {
            "step_ms": took,
            "gpu_ms": without,
            "roofline_ms": least,
            "over": round(took / least, 2),
            "gpu_over": round(without / least, 2),
        }
    found["steps_by_batch"] = steps
    rows = model.embed([5 + at % 80 for at in range(PROMPT)], None)
    model.run([], [], Part(0, rows))
    found["steps_beside_a_part"] = {
        batch: beside(model, batch, rows, device, times) for batch in BATCHES
    }
    found["prompt_600_ms"] = median_ms(lambda: model.run([], [], Part(0, rows)), device, times)
    if device.type != "cpu":
        found["reserved_bytes"] = torch.cuda.memory_reserved(device)
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "speed.json")
    parser.add_argument("--device", default="CUDA")
    parser.add_argument("--shapes", nargs="+", default=["1.3b", "7b"])
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--times", type=int, default=60)
    options = parser.parse_args()
    shapes = {}
    for name in options.shapes:
        with tempfile.TemporaryDirectory(prefix="speed-") as temporary:
            folder = Path(temporary) / "checkpoint"
            write_checkpoint(folder, name, device="cuda" if options.device == "CUDA" else "cpu")
            shapes[name] = {
                way: measured(
                    folder, SHAPES[name], way=way, name=options.device, times=options.times
                )
                for way in options.ways
            }
        print(name, shapes[name], flush=True)
    write(options.out, "python bench/gpu/speed.py", {"context": CONTEXT, "shapes": shapes})


if __name__ == "__main__":
    main()
