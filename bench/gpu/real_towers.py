"""Vision halves of published dimensions with random weights, exported for torch and for TensorRT.

    python bench/gpu/real_towers.py --folder /tmp/towers --families llava blip2-opt

exports without TensorRT, one process a family: exporting takes one core, and a machine has many.
"""

import argparse
import json
import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_record import ROOT

from mm_api.documents.build_plan import VisionBuild, VisionPlan
from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES
from mm_runtime.engine_build.commands.export_vision import halved, write_onnx, write_program
from mm_runtime.engine_build.commands.towers import load_tower
from mm_runtime.engine_build.commands.towers.fusing import fuse
from mm_runtime.inspect.checkpoint import InspectOptions
from mm_runtime.serving.geometry.rotation import patch_positions

sys.path += [str(ROOT / "tools")]

DTYPE = "float16"
VOCABULARY = 1024
"""Of the language model, which is not used: a small one is written quickly."""

LARGEST = 16
FEW = 4
"""Images of the largest run: squares, and images that keep their shape or have four tiles."""

SIDE_PATCHES = 32
"""Of images that keep their shape: 448 x 448 pixels."""

MOST_PIXELS = 1280 * 28 * 28
"""Of one of them; as Qwen2-VL's cards advise."""

FAMILY_NAMES = ("llava", "llava-onevision", "blip2-opt", "mllama", "qwen2-vl", "qwen2-5-vl")


@dataclass(frozen=True)
class Exported:
    """A folder with one family's vision half."""

    folder: Path

    @property
    def facts(self) -> ModelFacts:
        """Return the facts, with images of at most `MOST_PIXELS`."""
        return ModelFacts.from_json((self.folder / "facts.json").read_bytes())

    @property
    def plain(self) -> bool:
        """Return whether its images are squares."""
        return FAMILIES[self.facts.family].layout.plain

    @property
    def record(self) -> dict[str, Any]:
        """Return what the export took; `max_batch_size`, where it is, is that of the engine."""
        found: dict[str, Any] = json.loads((self.folder / "record.json").read_text())
        return found

    @property
    def plan(self) -> VisionPlan:
        """Return the plan of the engine."""
        vision = self.facts.vision
        assert vision is not None
        usual = LARGEST if self.plain else FEW
        return VisionPlan(
            engine="TensorRT",
            image_size=vision.image_size,
            features_per_image=vision.features_per_image,
            max_batch_size=self.record.get("max_batch_size", usual),
            opset=18,
            tolerance=1e-2,
            tensorrt=VisionBuild(dtype=DTYPE, product="any", compute_capability="any"),
        )

    def sample(self) -> tuple[dict[str, Any], Any]:
        """Return inputs of a run and torch's features in float32."""
        with np.load(self.folder / "sample.npz") as kept:
            inputs = {name: kept[name] for name in kept.files}
        return inputs, inputs.pop("wanted")


def batch_of(sample: dict[str, Any], count: int) -> dict[str, Any]:
    """Return a batch of so many entries, all of the first one."""
    return {name: np.repeat(one[:1], count, axis=0) for name, one in sample.items()}


def write_checkpoint(folder: Path, family: str, device: str) -> ModelFacts:
    """Write a published configuration with random weights around no language model."""
    from transformers import AutoConfig, AutoModelForImageTextToText  # noqa: PLC0415

    from mm_ctl.commands.checkpoint_folder import facts_of_folder  # noqa: PLC0415
    from real_models import real_models  # noqa: PLC0415 - of tools

    published = next(one for one in real_models() if one.family == family)
    published.write(folder)
    facts = facts_of_folder(folder, InspectOptions())
    config = AutoConfig.from_pretrained(folder)
    config.text_config.num_hidden_layers = 0
    config.text_config.vocab_size = VOCABULARY
    config.text_config.pad_token_id = None
    if getattr(config.text_config, "layer_types", None):
        config.text_config.layer_types = []
    if getattr(config.text_config, "cross_attention_layers", None):
        config.text_config.cross_attention_layers = []
    torch.manual_seed(3)
    torch.set_default_dtype(torch.float16)
    with torch.device(device):
        model = AutoModelForImageTextToText.from_config(config)  # type: ignore[no-untyped-call]
    torch.set_default_dtype(torch.float32)
    for weight in model.parameters():
        if not weight.any():  # zeros, BLIP-2's queries among them, would hide what halves lose
            torch.nn.init.normal_(weight, std=0.02)
    for index in folder.glob("*.index.json"):
        index.unlink()
    model.save_pretrained(folder, max_shard_size="9GB")
    return facts


def export(family: str, folder: Path, device: str) -> Exported:
    """Write what a build exports, a sample and torch's answer in float32."""
    began = time.perf_counter()
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir(parents=True)
    facts = write_checkpoint(checkpoint, family, device)
    vision = facts.vision
    assert vision is not None
    if vision.max_pixels:
        vision = vision.model_copy(update={"max_pixels": MOST_PIXELS})
        facts = facts.model_copy(update={"vision": vision})
    tower = load_tower(checkpoint, facts, trust_remote_code=False)
    shutil.rmtree(checkpoint)  # what all families write together is more than a small disk has
    loaded = time.perf_counter()
    sample = dict(tower.samples[0])
    if "patch_positions" in sample:
        positions = patch_positions(SIDE_PATCHES, SIDE_PATCHES, vision.merge_size or 1)
        width = sample["pixel_values"].shape[-1]
        pixels = np.random.default_rng(1).uniform(-2, 2.7, (2, len(positions), width))
        repeated = np.broadcast_to(positions, (2, *positions.shape))
        sample = {"pixel_values": pixels.astype(np.float32), "patch_positions": repeated.copy()}
    sample = {name: one[:2] for name, one in sample.items()}
    layout = FAMILIES[family].layout
    fused = not layout.stores_scores
    if fused:
        fuse(tower.module)
    write_program(tower, folder / "model.pt2")
    program = time.perf_counter()
    given = [one.to(device) for one in tower.torch_inputs(sample)]
    with torch.inference_mode():
        wanted = torch.export.load(folder / "model.pt2")
        from torch.export.passes import move_to_device_pass  # noqa: PLC0415

        on_device = move_to_device_pass(wanted, device).module()
        names = [one.name for one in tower.inputs]
        rows = on_device(**dict(zip(names, given, strict=True))).float().cpu().numpy()
    np.savez(folder / "sample.npz", wanted=rows, **sample)
    half = halved(tower)
    write_onnx(half, folder / "model.onnx", opset=18)
    done = time.perf_counter()
    (folder / "facts.json").write_text(facts.to_json())
    record = {
        "parameters": sum(one.numel() for one in tower.module.parameters()),
        "load_s": round(loaded - began, 1),
        "program_s": round(program - loaded, 1),
        "onnx_s": round(done - program, 1),
    }
    (folder / "record.json").write_text(json.dumps(record))
    return Exported(folder)


def exported(families: list[str], folder: Path, device: str) -> dict[str, Exported]:
    """Return the vision halves of families in a folder, exported unless they are there."""
    missing = [one for one in families if not (folder / one / "record.json").is_file()]
    with ProcessPoolExecutor(max(1, len(missing)), mp_context=get_context("spawn")) as processes:
        waiting = {one: processes.submit(export, one, folder / one, device) for one in missing}
        for family, one in waiting.items():
            try:
                print(family, one.result().record, flush=True)
            except Exception as error:  # noqa: BLE001 - the other families are measured
                print(family, "is not exported:", type(error).__name__, error, flush=True)
    found = {one: Exported(folder / one) for one in families}
    return {name: one for name, one in found.items() if (one.folder / "record.json").is_file()}


def main() -> None:
    """Export."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--families", nargs="+", default=list(FAMILY_NAMES))
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    exported(options.families, options.folder, options.device)


if __name__ == "__main__":
    main()
