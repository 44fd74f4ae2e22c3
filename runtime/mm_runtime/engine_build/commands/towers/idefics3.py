"""Idefics3's vision half: tower, patches merged, projection, for one tile.

Tiles are complete squares, so every patch has one position: those that the checkpoint's own class
computes for a square, which are not always the patch's number.
"""

from typing import Any

import torch

from mm_runtime.engine_build.commands.towers.tower import (
    Tower,
    TowerSource,
    feature_rows,
    square_tower,
)


class Idefics3Vision(torch.nn.Module):
    """Vision tower and connector.

    Input `pixel_values`: float32[batch, 3, side, side]; output: float32[batch, features, hidden].
    """

    def __init__(self, model: Any, side: int) -> None:
        super().__init__()
        tower = model.vision_model
        self.patches = tower.embeddings.patch_embedding
        self.register_buffer("positions", _positions(tower.embeddings, side))
        self.layers = tower.encoder.layers
        self.norm = tower.post_layernorm
        self.connector = model.connector
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the rows of the prompt table for each tile."""
        states = self.patches(pixel_values).flatten(2).transpose(1, 2) + self.positions
        for layer in self.layers:
            states = layer(states, None)
        features: torch.Tensor = self.connector(self.norm(states))
        return features


@torch.inference_mode()
def _positions(embeddings: Any, side: int) -> torch.Tensor:
    """Return the position embedding [patches, width] of each patch of a complete square."""
    seen: list[torch.Tensor] = []
    kept = embeddings.position_embedding.register_forward_hook(
        lambda _module, _given, made: seen.append(made)
    )
    patches = side // embeddings.patch_size
    complete = torch.ones((1, patches, patches), dtype=torch.bool)
    embeddings(torch.zeros((1, 3, side, side)), patch_attention_mask=complete)
    kept.remove()
    return seen[0][0].clone()


def load(source: TowerSource) -> Tower:
    """Return the vision half of a checkpoint of Idefics3 or SmolVLM."""
    model = source.model().model

    def features(pixels: torch.Tensor) -> torch.Tensor:
        # Each tile as the only one of its request.
        return feature_rows(model.get_image_features(pixel_values=pixels[:, None]))

    return square_tower(Idefics3Vision(model, source.vision.image_size), source.vision, features)
