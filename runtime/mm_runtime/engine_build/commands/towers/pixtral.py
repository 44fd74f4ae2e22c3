"""Pixtral's vision half: Mistral Small 3.1's tower, and a projector for each patch."""

from typing import Any

import torch

from mm_runtime.engine_build.commands.towers.mistral3 import PixtralTower, lines_tower
from mm_runtime.engine_build.commands.towers.tower import Tower, TowerSource


class PixtralVision(torch.nn.Module):
    """Tower and projector.

    Inputs as the tower's; output: float32[batch, patches, hidden].
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        projector = model.multi_modal_projector
        self.tower = PixtralTower(model.vision_tower)
        self.first, self.act, self.second = projector.linear_1, projector.act, projector.linear_2
        self.train(mode=False)

    def forward(self, pixel_values: torch.Tensor, patch_positions: torch.Tensor) -> torch.Tensor:
        """Return the rows of the prompt table for each image."""
        states = self.tower(pixel_values, patch_positions)
        features: torch.Tensor = self.second(self.act(self.first(states)))
        return features


def load(source: TowerSource) -> Tower:
    """Return the vision half of a Pixtral checkpoint."""
    model = source.model().model
    return lines_tower(PixtralVision(model), model.get_image_features, source.facts)
