"""What do sampling and penalties add to a decoding step?

    python bench/gpu/choosing.py --shapes 1.3b 7b --out bench/gpu/results/choosing.json

In one process, without Triton, at 660 positions: a step is the pass, its logits, the tokens that
are chosen and their copy to the processor. `row by row` copies the logits of each row and sorts
them on the processor.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from checkpoints import SHAPES, Shape, write_checkpoint
from gpu_record import RESULTS, write
from speed import BATCHES, CONTEXT, POSITIONS, SLOTS, median_ms

from mm_api.documents.serving_plan import Device
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.choosing import choose, choose_all
from mm_runtime.reference_engine.fused.opening import open_kernels
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.sampling import Rules, TokenChooser
from mm_runtime.serving.device import open_device
from mm_runtime.serving.generate.request import Request, Sampling

ANSWER = list(range(10, 74))
WAYS = {
    "greedy": Sampling(),
    "temperature": Sampling(top_p=1.0, temperature=0.8, seed=1),
    "temperature, top_p": Sampling(top_p=0.95, temperature=0.8, seed=1),
    "temperature, top_k, penalties": Sampling(
        top_k=40, temperature=0.8, seed=1, repetition_penalty=1.1, frequency_penalty=0.2
    ),
}


def rules(way: str, batch: int, device: torch.device) -> list[Rules | None]:
    """Return the rules of so many rows that all sample this way."""
    request = Request(ids=(5, 6, 7), max_tokens=9, end_ids=frozenset({2}), sampling=WAYS[way])
    chooser = TokenChooser(request, SHAPES["7b"].vocabulary, device)
    return [None if chooser.plain else chooser.rules(ANSWER) for _ in range(batch)]


def row_by_row(logits: torch.Tensor, wanted: Sequence[Rules | None]) -> list[int]:
    """Choose on the processor, each row by itself."""
    return [
        int(choose(logits[row : row + 1].cpu(), [one])) if one else int(logits[row].argmax())
        for row, one in enumerate(wanted)
    ]


def opened(folder: Path, shape: Shape, name: Device) -> LanguageModel:
    """Return the language model as it is served."""
    device = open_device(name)
    return LanguageModel(
        Checkpoint(
            folder=folder,
            family="llava",
            dtype=shape.dtype,
            slots=SLOTS,
            max_length=POSITIONS,
            device=device,
            kernels=open_kernels(device),
        )
    )


def steps(model: LanguageModel, name: Device, times: int) -> dict[str, dict[int, float]]:
    """Return the milliseconds of a step by way and batch."""
    device = open_device(name)
    found: dict[str, dict[int, float]] = {}
    for batch in BATCHES:
        tokens, positions = [5 + at for at in range(batch)], [CONTEXT] * batch

        def logits(tokens: list[int] = tokens, positions: list[int] = positions) -> torch.Tensor:
            return model.logits(model.run(tokens, positions).decoded)

        def timed(call: Callable[[], object]) -> float:
            for _ in range(3):
                call()
            return median_ms(call, device, times)

        for way in WAYS:

            def step(way: str = way, batch: int = batch) -> object:
                return choose_all(logits(), rules(way, batch, device), [None] * batch)

            found.setdefault(way, {})[batch] = timed(step)

        def slow(batch: int = batch) -> object:
            return row_by_row(logits(), rules("temperature, top_p", batch, device))

        found.setdefault("temperature, top_p, row by row", {})[batch] = timed(slow)
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "choosing.json")
    parser.add_argument("--device", default="CUDA")
    parser.add_argument("--shapes", nargs="+", default=["1.3b", "7b"])
    parser.add_argument("--times", type=int, default=30)
    options = parser.parse_args()
    shapes = {}
    for name in options.shapes:
        shape = SHAPES[name]
        with tempfile.TemporaryDirectory(prefix="choosing-") as temporary:
            checkpoint = Path(temporary) / "checkpoint"
            write_checkpoint(checkpoint, name, device="cuda" if options.device == "CUDA" else "cpu")
            model = opened(checkpoint, shape, options.device)
            shapes[name] = {"step_ms": steps(model, options.device, options.times)}
            del model
        print(name, shapes[name], flush=True)
    write(
        options.out,
        "python bench/gpu/choosing.py",
        {"context": CONTEXT, "shapes": shapes},
    )


if __name__ == "__main__":
    main()
