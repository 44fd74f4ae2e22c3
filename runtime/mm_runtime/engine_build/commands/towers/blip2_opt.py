"""BLIP-2's vision half: ViT, Q-Former and projection; each query token becomes one row."""

from typing import Any

import torch

from mm_runtime.engine_build.commands.towers.tower import (
    Tower,
    TowerSource,
    feature_rows,
    square_tower,
)


class Blip2Vision(torch.nn.Module):
    """Vision transformer, Q-Former, projection.

    Input `pixel_values`: float32[batch, 3, side, side]; output: float32[batch, queries, hidden].
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.tower = model.vision_model
        self.qformer = model.qformer
        self.projection = model.language_projection
        self.query_tokens = model.query_tokens
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        image = self.tower(pixel_values).last_hidden_state
        queries = self.query_tokens.expand(image.shape[0], -1, -1)
        # No mask: every patch of every image counts.
        seen = self.qformer(query_embeds=queries, encoder_hidden_states=image).last_hidden_state
        features: torch.Tensor = self.projection(seen)
        return features


def load(source: TowerSource) -> Tower:
    model = source.model()

    def features(pixels: torch.Tensor) -> torch.Tensor:
        return feature_rows(model.get_image_features(pixels))

    return square_tower(Blip2Vision(model), source.vision, features)
