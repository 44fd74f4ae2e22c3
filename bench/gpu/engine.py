"""What does `Engine` add to a step of its model, and what does transformers' own `generate` take?

    python bench/gpu/engine.py --shapes 1.3b 7b --out bench/gpu/results/engine.json

In one process, without Triton: so many requests at once, prompts of 600 tokens, 128 more of each,
greedy. `step_ms` is the time between two pieces of an answer while all of them decode and no
prompt is read; the roofline is that of speed.py. `generate` has the same weights and prompts in
the same process, with attention as the engine chooses it (cuDNN's is off), its default cache and
no compilation. The result is written after each measurement, so that a run may be cut off.
"""

import argparse
import gc
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from checkpoints import SHAPES, TOKENS, made
from gpu_record import RESULTS, write
from speed import CONTEXT, POSITIONS, PROMPT, SLOTS, roofline_ms

from mm_api.documents.build_plan import EngineLimits
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.engine import Engine
from mm_runtime.reference_engine.fused.opening import open_kernels
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.load import GPU_GROWN_ROWS, GPU_PROMPT_ROWS
from mm_runtime.reference_engine.options import EngineOptions
from mm_runtime.serving.device import is_gpu, open_device, release_unused, wait_for
from mm_runtime.serving.generate.request import Piece, Request

ENGINE_BATCHES = (1, 8, 16, 32)
GENERATE_BATCHES = (1, 32)
ANSWER = 128
WARM = 8
"""Tokens of the answers before those that are measured."""

FIRST_TEXT_ID = 5
DEADLINE_SECONDS = 120


class Timed:
    """When the pieces of one answer came."""

    def __init__(self) -> None:
        self.moments: list[float] = []
        self.ids: list[int] = []
        self.error: Exception | None = None
        self.ended = threading.Event()

    def send(self, piece: Piece) -> None:
        """Take some tokens."""
        if piece.ids:
            self.moments.append(time.perf_counter())
            self.ids.extend(piece.ids)
        if piece.finish is not None:
            self.ended.set()

    def fail(self, error: Exception) -> None:
        """Take the error that ended the request."""
        self.error = error
        self.ended.set()

    def cancelled(self) -> None:
        """No request here is dropped."""

    def is_cancelled(self) -> bool:
        """No client cancels."""
        return False


def prompts(batch: int) -> list[tuple[int, ...]]:
    """Return prompts of words; no two are the same."""
    words = TOKENS - FIRST_TEXT_ID
    return [
        tuple(FIRST_TEXT_ID + (7 * at + 11 * number + at * number) % words for at in range(PROMPT))
        for number in range(batch)
    ]


def opened(folder: Path, dtype: str, device: torch.device) -> Engine:
    """Return an engine as a pod loads it, started."""
    kernels = open_kernels(device)
    assert kernels is not None or not is_gpu(device), "the kernels cannot be used here"
    model = LanguageModel(
        Checkpoint(
            folder=folder,
            family="llava",
            dtype=dtype,
            slots=SLOTS,
            max_length=POSITIONS,
            device=device,
            kernels=kernels,
        )
    )
    limits = EngineLimits(
        max_batch_size=SLOTS,
        max_input_len=POSITIONS,
        max_seq_len=POSITIONS,
        max_num_tokens=8192,
        max_beam_width=1,
        max_images_per_request=0,
        max_multimodal_len=0,
    )
    engine = Engine(
        model,
        EngineOptions(
            limits=limits,
            max_queue_size=0,
            prompt_rows=GPU_PROMPT_ROWS,
            grown_rows=GPU_GROWN_ROWS,
        ),
    )
    engine.start()
    return engine


def answered(engine: Engine, batch: int, tokens: int) -> tuple[float, list[Timed]]:
    """Return when so many requests were submitted, and their answers.

    Raises:
        Exception: one of them failed.
    """
    sinks = [Timed() for _ in range(batch)]
    began = time.perf_counter()
    for ids, sink in zip(prompts(batch), sinks, strict=True):
        engine.submit(Request(ids=ids, max_tokens=tokens, end_ids=frozenset()), sink)
    for sink in sinks:
        assert sink.ended.wait(DEADLINE_SECONDS), "no answer"
        if sink.error is not None:
            raise sink.error
        assert len(sink.ids) == tokens
    return began, sinks


def steady_gaps(sinks: Sequence[Timed]) -> list[float]:
    """Return the times between pieces of the last answer to begin, until the first one ends."""
    ends = min(sink.moments[-1] for sink in sinks)
    last = max(sinks, key=lambda sink: sink.moments[0])
    return [later - sooner for sooner, later in pairwise(last.moments) if later <= ends]


def of_engine(engine: Engine, shape: str, batch: int) -> dict[str, Any]:
    """Return what answers of a batch took."""
    answered(engine, batch, WARM)
    began, sinks = answered(engine, batch, ANSWER)
    ended = max(sink.moments[-1] for sink in sinks)
    gaps = steady_gaps(sinks)
    assert gaps, "the first answer ended before the last one began"
    step = statistics.median(gaps) * 1e3
    least = roofline_ms(SHAPES[shape], batch)
    return {
        "step_ms": round(step, 3),
        "steps": len(gaps),
        "roofline_ms": least,
        "over": round(step / least, 2) if least else None,
        "tokens_per_second": round(batch / step * 1e3, 1),
        "first_token_ms": round((sinks[0].moments[0] - began) * 1e3, 1),
        "tokens_per_second_with_prompts": round(batch * ANSWER / (ended - began), 1),
    }


def of_generate(model: Any, batch: int, device: torch.device) -> tuple[dict[str, Any], list[int]]:
    """Return what `generate` takes for the same prompts, and the first answer."""
    ids = torch.tensor(prompts(batch), device=device)

    def run(tokens: int) -> tuple[float, Any]:
        wait_for(device)
        began = time.perf_counter()
        found = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            pad_token_id=0,
        )
        wait_for(device)
        return time.perf_counter() - began, found

    run(WARM)
    first, _ = run(1)
    total, found = run(ANSWER)
    step = (total - first) / (ANSWER - 1)
    timed = {
        "step_ms": round(step * 1e3, 3),
        "tokens_per_second": round(batch / step, 1),
        "prompts_ms": round(first * 1e3, 1),
        "tokens_per_second_with_prompts": round(batch * ANSWER / total, 1),
    }
    return timed, found[0, PROMPT:].tolist()


def open_transformers(folder: Path, dtype: str, device: torch.device) -> Any:
    """Return transformers' own model of a checkpoint."""
    from transformers import LlavaForConditionalGeneration  # noqa: PLC0415 - seconds

    model: Any = LlavaForConditionalGeneration.from_pretrained(
        folder, dtype=getattr(torch, dtype), device_map={"": device}
    )
    return model.eval()


class Results:
    """What is known so far, on disk after each addition."""

    def __init__(self, out: Path, shapes: Sequence[str]) -> None:
        self._out = out
        self._shapes: dict[str, dict[str, Any]] = {name: {} for name in shapes}

    def add(self, shape: str, part: str, batch: int, found: dict[str, Any]) -> None:
        """Take a measurement."""
        of_part = self._shapes[shape].setdefault(part, {})
        of_part[batch] = found
        self.write()

    def note(self, shape: str, **values: object) -> None:
        """Take other values of a shape."""
        self._shapes[shape] |= values
        self.write()

    def write(self) -> None:
        """Write what is known."""
        write(
            self._out,
            "python bench/gpu/engine.py",
            {"context": CONTEXT, "prompt": PROMPT, "answer": ANSWER, "shapes": self._shapes},
        )


def measure(shape: str, folder: Path, device: torch.device, results: Results) -> None:
    """Measure one shape both ways."""
    dtype = SHAPES[shape].dtype
    began = time.monotonic()
    engine = opened(folder, dtype, device)
    results.note(shape, load_seconds=round(time.monotonic() - began, 1))
    for batch in ENGINE_BATCHES:
        results.add(shape, "engine", batch, of_engine(engine, shape, batch))
    _, (sink,) = answered(engine, 1, ANSWER)
    engine.stop()
    del engine
    gc.collect()  # a model and its graphs refer to each other
    release_unused(device)
    model = open_transformers(folder, dtype, device)
    for batch in GENERATE_BATCHES:
        timed, first = of_generate(model, batch, device)
        results.add(shape, "generate", batch, timed)
        if batch == 1:
            same = next((at for at in range(ANSWER) if first[at] != sink.ids[at]), ANSWER)
            results.note(shape, equal_leading_tokens=same)
    del model
    gc.collect()
    release_unused(device)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "engine.json")
    parser.add_argument("--device", default="CUDA")
    parser.add_argument("--shapes", nargs="+", default=["1.3b", "7b"])
    parser.add_argument("--checkpoints", type=Path, help="folder that has them, or gets them")
    options = parser.parse_args()
    device = open_device(options.device)
    results = Results(options.out, options.shapes)
    with tempfile.TemporaryDirectory(prefix="engine-") as temporary, torch.inference_mode():
        folder = options.checkpoints or Path(temporary)
        for name in options.shapes:
            checkpoint = made(folder, name, device=device.type)
            release_unused(device)
            measure(name, checkpoint, device, results)


if __name__ == "__main__":
    main()
