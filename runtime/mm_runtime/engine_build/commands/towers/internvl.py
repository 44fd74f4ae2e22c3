"""InternVL's vision half: tower, four patches merged into one, projector, for one tile.

Tiles stand one after another in the prompt, so nothing has to be put together outside.
"""

from typing import Any

import torch

from mm_runtime.engine_build.commands.towers.tower import (
    Tower,
    TowerSource,
    feature_rows,
    square_tower,
)


class InternVlVision(torch.nn.Module):
    """Vision tower, merger and projector.

    Input `pixel_values`: float32[batch, 3, side, side]; output: float32[batch, features, hidden].
    """

    def __init__(self, model: Any, side: int, merged: int) -> None:
        super().__init__()
        self.tower = model.vision_tower
        self.projector = model.multi_modal_projector
        self.side, self.merged = side, merged
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the rows of the prompt table for each tile."""
        patches = self.tower(pixel_values).last_hidden_state[:, 1:]  # without the class token
        blocks = patches.unflatten(1, (self.side, self.merged, self.side, self.merged))
        # As upstream's two turns of the grid leave them: rows of a block vary slowest.
        joined = blocks.permute(0, 1, 3, 2, 4, 5).flatten(3).flatten(1, 2)
        features: torch.Tensor = self.projector(joined)
        return features


def load(source: TowerSource) -> Tower:
    """Return the vision half of an InternVL checkpoint."""
    vision = source.vision
    side, merged = vision.image_size, vision.merge_size or 1
    model = source.model()

    def features(pixels: torch.Tensor) -> torch.Tensor:
        return feature_rows(model.model.get_image_features(pixel_values=pixels))

    module = InternVlVision(model.model, side // vision.patch_size // merged, merged)
    return square_tower(module, vision, features)
