"""NVILA's vision half: VILA's parts, of 2 x 2 or 3 x 3 patches a feature, tile by tile.

Of images at several scales, tower and projector are exported apart: in between the encoder joins
what each tile has at every scale.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from mm_api.documents.model_facts import ModelFacts, VisionFacts
from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.engine_build.commands.towers.tower import (
    Sample,
    Tower,
    TowerInput,
    TowerSource,
    image_samples,
)
from mm_runtime.engine_build.commands.towers.vila import (
    in_blocks,
    of_parts,
    project,
    projector_of,
    read_parts,
)
from mm_runtime.serving.encode.vision.scales import JOINED


class PatchStates(torch.nn.Module):
    """The tower up to a layer.

    Input `pixel_values`: float32[batch, 3, side, side]; output: float32[batch, patches, width].
    """

    def __init__(self, tower: Any, layer: int) -> None:
        super().__init__()
        self.tower = tower
        self.layer = layer
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        outputs = self.tower(pixel_values, output_hidden_states=True)
        states: torch.Tensor = outputs.hidden_states[self.layer]
        return states


class BlockProjector(torch.nn.Module):
    """Downsampling of `merged` x `merged` patches, and the projector.

    Input `joined`: float32[batch, patches, scales x width]; output: float32[batch, features,
    hidden].
    """

    def __init__(self, weights: dict[str, torch.Tensor], merged: int) -> None:
        super().__init__()
        self.merged = merged
        self.layers = projector_of(weights).requires_grad_(requires_grad=False)
        self.train(mode=False)

    def forward(self, joined: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.layers(in_blocks(joined, self.merged))
        return features


def load(source: TowerSource) -> Tower:
    return (_of_scales if source.vision.scales else of_parts)(source.llm, source.facts)


def _of_scales(llm: Path, facts: ModelFacts) -> Tower:
    assert facts.vision is not None  # noqa: S101 (its caller has looked)
    vision = facts.vision
    tower, layer, weights = read_parts(llm, facts)
    side = vision.image_size

    def states_of(sample: Sample) -> torch.Tensor:
        pixels = torch.from_numpy(sample["pixel_values"])
        states: torch.Tensor = tower(pixels, output_hidden_states=True).hidden_states[layer]
        return states

    return Tower(
        module=PatchStates(tower, layer),
        inputs=(TowerInput("pixel_values", ("batch", 3, side, side)),),
        samples=image_samples(vision_samples.images(side)),
        reference=states_of,
        projector=_projector(vision, weights),
    )


def _projector(vision: VisionFacts, weights: dict[str, torch.Tensor]) -> Tower:
    merged, scales = vision.merge_size or 2, len(vision.scales or ())
    shape = ((vision.image_size // vision.patch_size) ** 2, scales * vision.hidden_size)
    random = np.random.default_rng(vision_samples.SEED)
    states = random.normal(size=(vision_samples.JOINED_TILES, *shape)).astype(np.float32)

    def reference(sample: Sample) -> torch.Tensor:
        return torch.stack([project(one, weights, merged) for one in sample[JOINED]])

    return Tower(
        module=BlockProjector(weights, merged),
        inputs=(TowerInput(JOINED, ("batch", *shape)),),
        samples=({JOINED: states}, {JOINED: states[:1]}),
        reference=reference,
    )
