"""LoRA adapters as peft saves them, made of a few small matrices."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

LLAMA = "base_model.model.language_model.model.layers.{layer}.{module}.lora_{side}.weight"
BART = "base_model.model.model.{part}.layers.{layer}.{module}.lora_{side}.weight"


def pair(
    name: str, *, rank: int, source: int, target: int, layer: int = 0, **names: object
) -> dict[str, torch.Tensor]:
    """Return both matrices of one module; `name` is a pattern of tensor names."""
    seed = torch.Generator().manual_seed(rank + layer)
    shapes = {"A": (rank, source), "B": (target, rank)}
    return {
        name.format(layer=layer, side=side, **names): torch.randn(shape, generator=seed)
        for side, shape in shapes.items()
    }


def write_adapter(
    folder: Path, tensors: Mapping[str, torch.Tensor], *, rank: int, pickle: bool = False
) -> Path:
    folder.mkdir(parents=True)
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    if pickle:
        torch.save(dict(tensors), folder / "adapter_model.bin")
    else:
        save_file(dict(tensors), folder / "adapter_model.safetensors")
    return folder
