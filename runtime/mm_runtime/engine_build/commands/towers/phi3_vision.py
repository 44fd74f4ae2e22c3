"""Phi-3-vision's vision half: CLIP tower, 2 x 2 neighbours put together, two-layer projection.

transformers has no class of the model: the tower is its CLIPVisionModel with the checkpoint's
weights, and the projection, which follows image_embedding_phi3_v.py, is spelled out a second time
for the answers that the export is compared with. The vectors at the ends of lines are projected
here, as each row is by itself, and travel beside the graph.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import torch
import transformers
from safetensors import safe_open

from mm_api.families.phi3_v import LINE_END, PROJECTION, SEPARATOR, TOWER, shapes_beside, tower_of
from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.engine_build.commands.towers.llava_onevision import NEWLINE
from mm_runtime.engine_build.commands.towers.tower import (
    Sample,
    Tower,
    TowerInput,
    TowerSource,
    image_samples,
)
from mm_runtime.reference_engine.all_weights import compare, fill, shapes_of

Weights = Mapping[str, torch.Tensor]
T = TypeVar("T")

BESIDE: Final = "vision_embed_tokens."
"""In the names of all weights beside the language model's."""


class Phi3Vision(torch.nn.Module):
    """CLIP tower up to the selected layer, 2 x 2 patches a row, projection.

    Input `pixel_values`: float32[batch, 3, side, side]; output: float32[batch, features, hidden].
    """

    def __init__(self, tower: Any, weights: Weights) -> None:
        super().__init__()
        self.tower = tower
        hidden, joined = weights[f"{PROJECTION}.0.weight"].shape
        self.projection = torch.nn.Sequential(
            torch.nn.Linear(joined, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, hidden)
        )
        fill(self.projection, _within(weights, PROJECTION), PROJECTION)
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the features of each tile, line by line."""
        patches = self.tower(pixel_values).last_hidden_state[:, 1:]  # without the class token
        half = int(patches.shape[1] ** 0.5) // 2
        blocks = patches.unflatten(1, (half, 2, half, 2)).permute(0, 1, 3, 2, 4, 5)
        features: torch.Tensor = self.projection(blocks.flatten(3).flatten(1, 2))
        return features


def load(source: TowerSource) -> Tower:
    """Return the vision half of a Phi-3-vision checkpoint."""
    vision, weights = source.vision, _weights(source.llm)
    given = json.loads((source.llm / "config.json").read_text(encoding="utf-8"))
    found = _without_buffers(shapes_of(weights))
    compare("Phi-3-vision's vision half", shapes_beside(given), found)
    sizes, _ = tower_of(given)
    # State 0 is what the first layer reads; layers behind the selected state change nothing.
    layers = vision.feature_layer % (vision.layers + 1)
    stated = {**sizes, "num_hidden_layers": layers, "attn_implementation": "eager"}
    config = transformers.CLIPVisionConfig(**cast("dict[str, Any]", stated))
    tower: Any = transformers.CLIPVisionModel(config)
    known = tower.state_dict()
    fill(tower, {n: v for n, v in _within(weights, TOWER).items() if n in known}, TOWER)
    module = Phi3Vision(tower, weights)
    module.requires_grad_(requires_grad=False)

    def reference(sample: Sample) -> torch.Tensor:
        pixels = torch.from_numpy(sample["pixel_values"])
        states = tower(pixels, output_hidden_states=True).hidden_states[layers]
        return torch.stack([_projected(_blocks(one[1:]), weights) for one in states])

    ends = torch.stack([weights[LINE_END].reshape(-1), weights[SEPARATOR].reshape(-1)])
    return Tower(
        module=module,
        inputs=(TowerInput("pixel_values", ("batch", 3, vision.image_size, vision.image_size)),),
        samples=image_samples(vision_samples.images(vision.image_size)),
        reference=reference,
        extras={NEWLINE: _projected(ends, weights).numpy()},
    )


def _weights(llm: Path) -> dict[str, torch.Tensor]:
    """Return the weights beside the language model's, in float32."""
    found: dict[str, torch.Tensor] = {}
    for path in sorted(llm.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = [one for one in file.keys() if BESIDE in one]  # noqa: SIM118
            found |= {name: file.get_tensor(name).float() for name in names}
    return found


def _within(weights: Weights, prefix: str) -> dict[str, torch.Tensor]:
    """Return the weights of a part."""
    return {
        name.removeprefix(f"{prefix}."): value
        for name, value in _without_buffers(weights).items()
        if name.startswith(f"{prefix}.")
    }


def _without_buffers(named: Mapping[str, T]) -> dict[str, T]:
    return {name: one for name, one in named.items() if not name.endswith(".position_ids")}


def _blocks(states: torch.Tensor) -> torch.Tensor:
    """Return the joined rows of one tile's patches [patches, width], block by block."""
    side = int(len(states) ** 0.5)
    grid = states.reshape(side, side, -1)
    rows = [
        torch.cat((grid[y, x], grid[y, x + 1], grid[y + 1, x], grid[y + 1, x + 1]))
        for y in range(0, side, 2)
        for x in range(0, side, 2)
    ]
    return torch.stack(rows)


def _projected(rows: torch.Tensor, weights: Weights) -> torch.Tensor:
    inner = rows @ weights[f"{PROJECTION}.0.weight"].T + weights[f"{PROJECTION}.0.bias"]
    inner = torch.nn.functional.gelu(inner)
    return inner @ weights[f"{PROJECTION}.2.weight"].T + weights[f"{PROJECTION}.2.bias"]
