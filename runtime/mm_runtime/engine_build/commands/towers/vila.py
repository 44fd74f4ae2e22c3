"""VILA 1.5's vision half: SigLIP tower, 2 x 2 neighbours put together, two-layer projector.

transformers has no class for VILA: the checkpoint holds a SigLIP in `vision_tower/` and the
projector's weights in `mm_projector/`. So the answers that the export is compared with come from
the tower's own class, with the projector spelled out a second time in numpy.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.engine_build.commands.towers.tower import Sample, Tower, TowerInput, image_samples

TOWER = "vision_tower"
PROJECTOR = "mm_projector"
FEATURE_LAYER = -2
"""`mm_vision_select_layer` of VILA's configurations."""

EPSILON = 1e-5
"""torch.nn.LayerNorm's."""


class VilaVision(torch.nn.Module):
    """SigLIP tower, downsampling, projector.

    Input `pixel_values`: float32[batch, 3, side, side]; output: float32[batch, features, hidden].
    """

    def __init__(self, tower: Any, weights: dict[str, torch.Tensor], layer: int) -> None:
        super().__init__()
        self.tower = tower
        self.layer = layer
        joined, hidden = weights["layers.1.weight"].shape[0], weights["layers.2.bias"].shape[0]
        self.layers = torch.nn.Sequential(
            torch.nn.Identity(),  # upstream's place of the downsampling, which has no weights
            torch.nn.LayerNorm(joined),
            torch.nn.Linear(joined, hidden),
            torch.nn.GELU(),
            torch.nn.Linear(hidden, hidden),
        )
        self.load_state_dict(weights, strict=False)
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the rows of the prompt table for each image."""
        states = self.tower(pixel_values, output_hidden_states=True).hidden_states[self.layer]
        side = int(states.shape[1] ** 0.5)
        grid = states.unflatten(1, (side, side))
        if side % 2:
            grid = torch.nn.functional.pad(grid, (0, 0, 0, 1, 0, 1))
        half = (side + 1) // 2
        # Of each 2 x 2 block: the column pair of the upper row, then of the lower one.
        blocks = grid.unflatten(1, (half, 2)).unflatten(3, (half, 2)).permute(0, 1, 3, 2, 4, 5)
        features: torch.Tensor = self.layers(blocks.flatten(3).flatten(1, 2))
        return features


def load(llm: Path, facts: ModelFacts, trust_remote_code: bool) -> Tower:  # noqa: FBT001 (one signature for all)
    """Return the vision half of a VILA checkpoint."""
    assert facts.vision is not None  # noqa: S101 (the family has one)
    del trust_remote_code  # no code of the checkpoint is needed
    side = facts.vision.image_size
    tower = transformers.SiglipVisionModel.from_pretrained(
        llm / TOWER, dtype=torch.float32, attn_implementation="eager"
    )
    tower.requires_grad_(requires_grad=False)
    stored = load_file(llm / PROJECTOR / "model.safetensors")
    weights = {name: value.float() for name, value in stored.items()}
    config = json.loads((llm / "config.json").read_text(encoding="utf-8"))
    layer = int(config.get("mm_vision_select_layer", FEATURE_LAYER))

    def reference(sample: Sample) -> torch.Tensor:
        pixels = torch.from_numpy(sample["pixel_values"])
        states = tower(pixels, output_hidden_states=True).hidden_states[layer]
        return torch.stack([_project(one.numpy(), weights) for one in states])

    return Tower(
        module=VilaVision(tower, weights, layer),
        inputs=(TowerInput("pixel_values", ("batch", 3, side, side)),),
        samples=image_samples(vision_samples.images(side)),
        reference=reference,
    )


def _project(states: Any, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the features [rows, hidden] of one image's patches [patches, width], block by block.

    Written as VILA's paper describes it, one block at a time, and not as the module above does it.
    """
    side = int(len(states) ** 0.5)
    grid = np.zeros((side + side % 2, side + side % 2, states.shape[1]), dtype=np.float32)
    grid[:side, :side] = states.reshape(side, side, -1)
    rows = [
        np.concatenate((grid[y, x], grid[y, x + 1], grid[y + 1, x], grid[y + 1, x + 1]))
        for y in range(0, side, 2)
        for x in range(0, side, 2)
    ]
    joined = torch.from_numpy(np.stack(rows))
    mean, variance = joined.mean(-1, keepdim=True), joined.var(-1, keepdim=True, correction=0)
    normed = (joined - mean) / (variance + EPSILON).sqrt()
    normed = normed * weights["layers.1.weight"] + weights["layers.1.bias"]
    inner = normed @ weights["layers.2.weight"].T + weights["layers.2.bias"]
    inner = torch.nn.functional.gelu(inner)
    return inner @ weights["layers.4.weight"].T + weights["layers.4.bias"]
