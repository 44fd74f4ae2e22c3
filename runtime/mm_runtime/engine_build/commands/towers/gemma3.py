"""Gemma 3's vision half: SigLIP's tower, pooling, norm and projection, for one square."""

from typing import Any

import torch

from mm_runtime.engine_build.commands.towers.tower import (
    Tower,
    TowerSource,
    feature_rows,
    square_tower,
)


class Gemma3Vision(torch.nn.Module):
    """Vision tower, pooled patches, projector.

    Input `pixel_values`: float32[batch, 3, side, side]; output: float32[batch, features, hidden].
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        projector = model.multi_modal_projector
        self.tower = model.vision_tower
        self.norm, self.weight = projector.mm_soft_emb_norm, projector.mm_input_projection_weight
        self.side = projector.tokens_per_side
        self.pooled = projector.kernel_size
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the rows of the prompt table for each image."""
        patches = self.tower(pixel_values).last_hidden_state
        blocks = patches.unflatten(1, (self.side, self.pooled, self.side, self.pooled))
        features: torch.Tensor = self.norm(blocks.mean(dim=(2, 4)).flatten(1, 2)) @ self.weight
        return features


def load(source: TowerSource) -> Tower:
    """Return the vision half of a Gemma 3 checkpoint."""
    model = source.model().model

    def features(pixels: torch.Tensor) -> torch.Tensor:
        return feature_rows(model.get_image_features(pixel_values=pixels))

    return square_tower(Gemma3Vision(model), source.vision, features)
