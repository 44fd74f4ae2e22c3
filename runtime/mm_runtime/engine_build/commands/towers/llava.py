"""LLaVA's vision half: CLIP tower, selected layer, projector."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from mm_runtime.engine_build.commands.towers.tower import (
    Tower,
    TowerSource,
    feature_rows,
    square_tower,
)


class LlavaVision(torch.nn.Module):
    """Vision tower, selected layer, projector.

    Input `pixel_values`: float32[batch, 3, side, side]; output: float32[batch, features, hidden].
    """

    def __init__(self, model: Any, feature_layer: int, feature_select: str) -> None:
        super().__init__()
        self.tower = model.model.vision_tower
        self.train(mode=False)
        self.projector = model.model.multi_modal_projector
        self.feature_layer = feature_layer
        self.skipped = 1 if feature_select == "default" else 0
        """Rows before the patches: the class token, which "default" leaves out."""

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        states = self.tower(pixel_values, output_hidden_states=True).hidden_states
        features: torch.Tensor = self.projector(states[self.feature_layer][:, self.skipped :])
        return features


def load(source: TowerSource) -> Tower:
    vision = source.vision
    model = source.model()
    own = own_features(model, vision.feature_layer, vision.feature_select)
    module = LlavaVision(model, vision.feature_layer, vision.feature_select)
    return square_tower(module, vision, lambda pixels: feature_rows(own(pixels)))


def own_features(model: Any, layer: int, select: str) -> Callable[..., Any]:
    """Return the class's own way from pixels to features."""
    return partial(
        model.model.get_image_features,
        vision_feature_layer=layer,
        vision_feature_select_strategy=select,
    )
