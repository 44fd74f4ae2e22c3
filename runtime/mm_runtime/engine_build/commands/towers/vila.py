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
from torch.nn import functional

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.engine_build.commands.towers.tower import Tower, TowerSource, square_tower
from mm_runtime.reference_engine.all_weights import Shape, compare, fill, load_weights, shapes_of

TOWER = "vision_tower"
PROJECTOR = "mm_projector"
FEATURE_LAYER = -2
"""`mm_vision_select_layer` of VILA's configurations."""

MERGED = 2
"""Patches along a side of a block that becomes one feature."""

_VECTORS = ("weight", "bias")


class VilaVision(torch.nn.Module):
    """SigLIP tower, downsampling of blocks of patches, projector.

    Input `pixel_values`: float32[batch, 3, side, side]; output: float32[batch, features, hidden].
    """

    def __init__(self, tower: Any, weights: dict[str, torch.Tensor], layer: int) -> None:
        super().__init__()
        self.tower = tower
        self.layer = layer
        self.layers = projector_of(weights)
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        states = self.tower(pixel_values, output_hidden_states=True).hidden_states[self.layer]
        features: torch.Tensor = self.layers(in_blocks(states))
        return features


def in_blocks(states: Any) -> Any:
    """Return patches [batch, patches, width] in blocks [batch, blocks, MERGED^2 x width]."""
    side = int(states.shape[1] ** 0.5)
    grid = states.unflatten(1, (side, side))
    if missing := -side % MERGED:
        grid = functional.pad(grid, (0, 0, 0, missing, 0, missing))
    # Of each block: the columns of the upper row, then of the next one.
    split = (-(-side // MERGED), MERGED)
    blocks = grid.unflatten(1, split).unflatten(3, split).permute(0, 1, 3, 2, 4, 5)
    return blocks.flatten(3).flatten(1, 2)


def projector_of(weights: dict[str, torch.Tensor]) -> torch.nn.Sequential:
    """Return upstream's layers by their places in it; the first place is the downsampling's."""
    (between, wide), (hidden, _) = (weights[f"layers.{at}.weight"].shape for at in (2, 4))
    found = torch.nn.Sequential(
        torch.nn.Identity(),
        torch.nn.LayerNorm(wide),
        torch.nn.Linear(wide, between),
        torch.nn.GELU(),
        torch.nn.Linear(between, hidden),
    )
    fill(found, {name.removeprefix("layers."): one for name, one in weights.items()}, PROJECTOR)
    return found


def load(source: TowerSource) -> Tower:
    tower, layer, weights = read_parts(source.llm, source.facts)

    def features(pixels: torch.Tensor) -> torch.Tensor:
        states = tower(pixels, output_hidden_states=True).hidden_states[layer]
        return torch.stack([project(one.numpy(), weights) for one in states])

    return square_tower(VilaVision(tower, weights, layer), source.vision, features)


def read_parts(
    llm: Path, facts: ModelFacts, **given: Any
) -> tuple[Any, int, dict[str, torch.Tensor]]:
    """Return the tower of `vision_tower/`, the layer it ends at, and `mm_projector/`'s weights."""
    tower = load_weights(
        transformers.SiglipVisionModel,
        llm / TOWER,
        dtype=torch.float32,
        attn_implementation="eager",
        **given,
    )
    tower.requires_grad_(requires_grad=False)
    stored = load_file(llm / PROJECTOR / "model.safetensors")
    compare(PROJECTOR, _projector_shapes(facts), shapes_of(stored))
    weights = {name: value.float() for name, value in stored.items()}
    config = json.loads((llm / "config.json").read_text(encoding="utf-8"))
    return tower, int(config.get("mm_vision_select_layer", FEATURE_LAYER)), weights


def _projector_shapes(facts: ModelFacts) -> dict[str, Shape]:
    """Return the weights of upstream's projector of 2 x 2 patches."""
    assert facts.vision is not None  # noqa: S101 (the family has one)
    hidden, wide = facts.text.hidden_size, MERGED * MERGED * facts.vision.hidden_size
    matrices: dict[int, Shape] = {2: (hidden, wide), 4: (hidden, hidden)}
    return {
        **{f"layers.1.{one}": (wide,) for one in _VECTORS},
        **{f"layers.{place}.weight": shape for place, shape in matrices.items()},
        **{f"layers.{place}.bias": shape[:1] for place, shape in matrices.items()},
    }


def project(states: Any, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the features [rows, hidden] of one image's patches [patches, width], block by block.

    Written as VILA's paper describes it, one block at a time, and not as the module above does it.
    """
    side = int(len(states) ** 0.5)
    filled = side + -side % MERGED
    grid = np.zeros((filled, filled, states.shape[1]), dtype=np.float32)
    grid[:side, :side] = states.reshape(side, side, -1)
    steps = range(MERGED)
    rows = [
        np.concatenate([grid[y + down, x + right] for down in steps for right in steps])
        for y in range(0, side, MERGED)
        for x in range(0, side, MERGED)
    ]
    values = torch.from_numpy(np.stack(rows))
    one, two, four = (
        (weights[f"layers.{at}.weight"], weights[f"layers.{at}.bias"]) for at in (1, 2, 4)
    )
    values = functional.layer_norm(values, values.shape[-1:], *one)
    return functional.linear(functional.gelu(functional.linear(values, *two)), *four)
