"""Measures how long the demo model takes for what, and writes a profile for the simulator.

In process, on one thread, as CPU seconds of the process, so that other programs on the machine
count little. Each line is a least-squares fit through the medians of its points:

    .venv/bin/python bench/autoscaling/measure_demo.py

writes `bench/autoscaling/results/demo.json` (every median, the fits and their worst residual) and
`demo-profile.yaml` beside it, for `mm-lab simulate --profile`.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch
import yaml
from fitting import FitError, above_zero

from mm_api.documents.serving_plan import ServingPlan
from mm_lab.simulation import ServiceProfile
from mm_runtime.reference_engine.checkpoint import Checkpoint
from mm_runtime.reference_engine.language_model import LanguageModel
from mm_runtime.reference_engine.model import Part
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.vision.load import load_encoder

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tests"))

from support.tiny_llava import CHECKPOINT, IMAGE_SIDE, build_engine  # noqa: E402 - no package

SLOTS = 4
"""`maxBatchSize` of examples/tiny-llava.yaml."""
QUEUE = 32
MAX_LENGTH = 512
PROMPTS = (16, 64, 128, 192, 256, 384)
BATCHES = (1, 2, 4, 8, 12, 16)
"""Beyond the slots: what one more request adds to a step is little, and a short line is noise."""
IMAGES = (1, 2, 3, 4)
ROWS = 16
"""Image tokens of one image: `image_seq_length` of the checkpoint."""
COLD_START_SECONDS = 40.0
"""Scheduled to Ready on a quiet two-core machine, as `make demo-autoscaling` saw it."""

Points = dict[int, float]


def timed(call: Callable[[], object], rounds: int) -> float:
    """Return the median CPU seconds of a call."""
    for _ in range(3):
        call()
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return statistics.median(found)


def fitted(points: Points) -> tuple[float, float, float]:
    """Return base and slope of a line, and its worst residual as a share of the value."""
    x, y = np.array(list(points)), np.array(list(points.values()))
    slope, base = np.polyfit(x, y, 1)
    worst = float(np.max(np.abs(base + slope * x - y) / y))
    return float(base), float(slope), worst


def measure(folder: Path, rounds: int) -> dict[str, Points]:
    """Return medians of prompts by length, decoding by batch, the encoder by images."""
    built = build_engine(folder)
    directory = EngineDirectory.open(built.directory)
    assert directory.vision is not None
    ServingPlan.from_json(built.serving.read_bytes())
    encoder = load_encoder(directory, directory.vision)
    model = LanguageModel(
        Checkpoint(
            folder=CHECKPOINT,
            family="llava",
            dtype="float32",
            slots=max(BATCHES),
            max_length=MAX_LENGTH,
        )
    )
    pixels = np.random.default_rng(1).random((4, 3, IMAGE_SIDE, IMAGE_SIDE), dtype=np.float32)

    def prompt(length: int) -> object:
        passed = model.run((), (), Part(0, model.embed([7] * length, None)))
        return model.logits(passed.read[-1:])

    def images(count: int) -> object:
        read = encoder.read({"pixel_values": pixels[np.newaxis, :count]})
        return encoder.encode([read])

    for length in PROMPTS:
        prompt(length)
    return {
        "prompt_by_tokens": {one: timed(partial(prompt, one), rounds) for one in PROMPTS},
        "decode_by_batch": {
            one: timed(partial(model.run, [7] * one, [128] * one), rounds) for one in BATCHES
        },
        "encoder_by_images": {one: timed(partial(images, one), rounds) for one in IMAGES},
    }


def profile_of(points: dict[str, Points]) -> tuple[ServiceProfile, dict[str, float]]:
    """Return the profile and the worst residual of each fit.

    Raises:
        FitError: a time comes out at zero or below.
    """
    prompt, token, prompt_off = fitted(points["prompt_by_tokens"])
    step, each, step_off = fitted(points["decode_by_batch"])
    _, image, image_off = fitted(points["encoder_by_images"])
    profile = ServiceProfile(
        name="the demo's tiny LLaVA on one core",
        prompt_seconds=above_zero("a prompt of no tokens", prompt),
        # An image's rows are prompt tokens as well.
        image_token_seconds=token + above_zero("the encoder's image", image) / ROWS,
        text_token_seconds=above_zero("a token of a prompt", token),
        step_seconds=above_zero("a step of no requests", step),
        step_seconds_per_request=above_zero("one more request in a step", each),
        slots=SLOTS,
        queue_size=QUEUE,
        cold_start_seconds=COLD_START_SECONDS,
    )
    residuals = {"prompt": prompt_off, "decode": step_off, "encoder": image_off}
    return profile, residuals


def main() -> None:
    """Measure, fit, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        points = measure(Path(name), rounds)
    try:
        profile, residuals = profile_of(points)
    except FitError as error:
        sys.exit(f"error: {error}; the medians in seconds: {json.dumps(points)}")
    document = {
        "command": f"bench/autoscaling/measure_demo.py --rounds {rounds}",
        "machine": {
            "cores": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "kernel": platform.release(),
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "cpu_seconds": points,
        "worst_residual_share": residuals,
        "profile": asdict(profile),
    }
    results = HERE / "results"
    (results / "demo.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = yaml.safe_dump(asdict(profile), sort_keys=False)
    (results / "demo-profile.yaml").write_text(text, encoding="utf-8")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
