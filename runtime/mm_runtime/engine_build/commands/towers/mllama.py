"""Llama 3.2 Vision's vision half: tiles of one image together, then the projector.

One entry of the batch is one image with all its tiles, padding included; its rows are what cross
attention reads.
"""

from typing import Any

import numpy as np
import torch

from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.engine_build.commands.towers.tower import (
    Array,
    Sample,
    Tower,
    TowerInput,
    TowerSource,
)


class MllamaVision(torch.nn.Module):
    """Tile transformer and projector.

    Inputs `pixel_values`: float32[batch, tiles, 3, side, side], `aspect_ratio_ids`: int64[batch],
    `aspect_ratio_mask`: int64[batch, tiles]; output: float32[batch, tiles x positions, hidden].
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.tower = model.model.vision_model
        self.projector = model.model.multi_modal_projector
        self.train(mode=False)

    def forward(
        self,
        pixel_values: torch.Tensor,
        aspect_ratio_ids: torch.Tensor,
        aspect_ratio_mask: torch.Tensor,
    ) -> torch.Tensor:
        """Return what cross attention reads of each image."""
        states = self.tower(
            pixel_values[:, None], aspect_ratio_ids[:, None], aspect_ratio_mask[:, None]
        ).last_hidden_state
        features: torch.Tensor = self.projector(states)
        return features[:, 0].flatten(1, 2)


def load(source: TowerSource) -> Tower:
    """Return the vision half of a Llama 3.2 Vision checkpoint."""
    model = source.model(cross_attention_layers=[])
    config = model.config.vision_config
    tiles, side = config.max_num_tiles, config.image_size
    shapes = config.supported_aspect_ratios
    images = vision_samples.images(side)

    def sample(first: int, batch: int) -> Sample:
        chosen = [(first + at) % len(shapes) for at in range(batch)]
        used = [shapes[at][0] * shapes[at][1] for at in chosen]
        mask = np.array([[tile < count for tile in range(tiles)] for count in used], dtype=np.int64)
        pixels = np.stack([np.roll(images, first + at, axis=0)[:tiles] for at in range(batch)])
        return {
            "pixel_values": _blank_padding(pixels, mask),
            "aspect_ratio_ids": np.array(chosen, dtype=np.int64) + 1,  # 0 means no image
            "aspect_ratio_mask": mask,
        }

    def reference(given: Sample) -> torch.Tensor:
        inputs = {name: torch.from_numpy(value)[:, None] for name, value in given.items()}
        states = model.model.vision_model(**inputs).last_hidden_state
        features: torch.Tensor = model.model.multi_modal_projector(states)
        return features.reshape(len(states), -1, features.shape[-1])

    return Tower(
        module=MllamaVision(model),
        inputs=(
            TowerInput("pixel_values", ("batch", tiles, 3, side, side)),
            TowerInput("aspect_ratio_ids", ("batch",)),
            TowerInput("aspect_ratio_mask", ("batch", tiles)),
        ),
        samples=(sample(0, 2), *(sample(first, 1) for first in range(len(shapes)))),
        reference=reference,
    )


def _blank_padding(pixels: Array, mask: Array) -> Array:
    blanked: Array = pixels * mask[:, :, None, None, None].astype(np.float32)
    return blanked
