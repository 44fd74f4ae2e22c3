"""How many images a second does the vision encoder of a served engine encode on a GPU?

    python bench/gpu/towers.py --out bench/gpu/results/towers.json

CLIP ViT-L/14-336 with a projector to 4096, random weights: exported as a build does, run as
`multimodal_encoders` does, with features that stay on the GPU. Pixels come from host memory.

    python bench/gpu/towers.py --engine TensorRT

compares engines of TensorRT with torch, in one run, for several families at published dimensions.
TensorRT and its Python module have to be there.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from checkpoints import write_llava
from gpu_record import RESULTS, write
from real_towers import FAMILY_NAMES, exported
from tensorrt_towers import all_compared

from mm_runtime.engine_build.commands.export_vision import write_program
from mm_runtime.engine_build.commands.towers import load_tower
from mm_runtime.engine_build.commands.towers.fusing import fuse
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.serving.device import open_device, wait_for
from mm_runtime.serving.encode.vision.torch_runner import TorchRunner

BATCHES = (1, 2, 4, 8, 16)
SIDE, LARGEST = 336, 16


def images_per_second(
    runner: TorchRunner, device: torch.device, batch: int, times: int
) -> tuple[float, float]:
    """Return the rate of single runs, each waited for, and of runs that are only started."""
    pixels = np.random.default_rng(batch).normal(size=(batch, 3, SIDE, SIDE)).astype(np.float32)
    given = {"pixel_values": pixels}
    for _ in range(3):
        runner(given)
    taken = []
    for _ in range(times):
        wait_for(device)
        began = time.perf_counter()
        runner(given)
        wait_for(device)
        taken.append(time.perf_counter() - began)
    on_gpu: dict[str, Any] = {"pixel_values": torch.from_numpy(pixels).to(device)}
    runner(on_gpu)
    wait_for(device)
    began = time.perf_counter()
    for _ in range(times):
        runner(on_gpu)
    wait_for(device)
    queued = (time.perf_counter() - began) / times
    return round(batch / statistics.median(taken), 1), round(batch / queued, 1)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--engine", choices=("Torch", "TensorRT"), default="Torch")
    parser.add_argument("--families", nargs="+", default=list(FAMILY_NAMES))
    parser.add_argument("--folder", type=Path, help="of `real_towers`, where it has exported some")
    options = parser.parse_args()
    device = open_device("CUDA")
    if options.engine == "TensorRT":
        target = options.out or RESULTS / "tensorrt.json"
        folder = options.folder or Path(tempfile.mkdtemp(prefix="towers-"))
        exports = exported(options.families, folder, "cuda")
        towers = all_compared(exports, device, options.times, target)
        write(target, "python bench/gpu/towers.py --engine TensorRT", {"towers": towers})
        return
    ways = {}
    with tempfile.TemporaryDirectory(prefix="towers-") as temporary:
        checkpoint = write_llava(Path(temporary) / "checkpoint", "tower", device="cuda")
        torch.cuda.empty_cache()
        facts = inspect(checkpoint, InspectOptions())
        model = Path(temporary) / "model.pt2"
        tower = load_tower(checkpoint, facts, trust_remote_code=False)
        fuse(tower.module)
        write_program(tower, model)
        for way, half, graphs in (
            ("float32", False, 0),
            ("float16", True, 0),
            ("float16, CUDA graphs", True, LARGEST),
        ):
            runner = TorchRunner(model, device=device, keeps=True, half=half, graphs=graphs)
            rates = {
                batch: images_per_second(runner, device, batch, options.times) for batch in BATCHES
            }
            ways[way] = {
                "images_per_second": {batch: rate for batch, (rate, _) in rates.items()},
                "without_copies": {batch: rate for batch, (_, rate) in rates.items()},
            }
            print(way, ways[way], flush=True)
    write(
        options.out or RESULTS / "towers.json",
        "python bench/gpu/towers.py",
        {"tower": "CLIP ViT-L/14-336", "ways": ways},
    )


if __name__ == "__main__":
    main()
