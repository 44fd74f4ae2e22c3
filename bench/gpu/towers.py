"""How many images a second does the vision encoder of a served engine encode on a GPU?

    python bench/gpu/towers.py --out bench/gpu/results/towers.json

CLIP ViT-L/14-336 with a projector to 4096, random weights: exported as a build does, run as
`multimodal_encoders` does, with features that stay on the GPU. Pixels come from host memory.

    python bench/gpu/towers.py --engine TensorRT

compares engines of TensorRT with torch, in one run, for several families at published dimensions.
TensorRT and its Python module have to be there.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from checkpoints import write_checkpoint
from gpu_record import RESULTS, write
from real_towers import FAMILY_NAMES, exported
from tensorrt_towers import BATCHES, all_compared, built, rates

from mm_runtime.engine_build.commands.export_vision import write_program
from mm_runtime.engine_build.commands.towers import load_tower
from mm_runtime.engine_build.commands.towers.fusing import fuse
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.serving.device import open_device
from mm_runtime.serving.encode.vision.torch_runner import TorchRunner

SIDE, LARGEST = 336, 16


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--engine", choices=("Torch", "TensorRT"), default="Torch")
    parser.add_argument("--families", nargs="+", default=list(FAMILY_NAMES))
    parser.add_argument("--folder", type=Path, help="of `real_towers`, where it has exported some")
    parser.add_argument("--add", action="store_true", help="keep other families of --out")
    parser.add_argument("--build-only", action="store_true", help="leave engines in the folder")
    options = parser.parse_args()
    device = open_device("CUDA")
    if options.engine == "TensorRT":
        target = options.out or RESULTS / "tensorrt.json"
        folder = options.folder or Path(tempfile.mkdtemp(prefix="towers-"))
        exports = exported(options.families, folder, "cuda")
        if options.build_only:
            for name, one in exports.items():
                print(name, built(one, rebuild=False), flush=True)
            return
        kept = json.loads(target.read_text())["towers"] if options.add else {}
        towers = kept | all_compared(exports, device, options.times, target)
        write(target, "python bench/gpu/towers.py --engine TensorRT", {"towers": towers})
        return
    ways = {}
    pixels = np.random.default_rng(1).normal(size=(1, 3, SIDE, SIDE)).astype(np.float32)
    image = {"pixel_values": pixels}
    with tempfile.TemporaryDirectory(prefix="towers-") as temporary:
        checkpoint = write_checkpoint(Path(temporary) / "checkpoint", "tower", device="cuda")
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
            found = {batch: rates(runner, image, device, batch, options.times) for batch in BATCHES}
            ways[way] = {
                "images_per_second": {batch: rate for batch, (rate, _) in found.items()},
                "without_copies": {batch: rate for batch, (_, rate) in found.items()},
            }
            print(way, ways[way], flush=True)
    write(
        options.out or RESULTS / "towers.json",
        "python bench/gpu/towers.py",
        {"tower": "CLIP ViT-L/14-336", "ways": ways},
    )


if __name__ == "__main__":
    main()
