"""LLaVA-NeXT's vision half: CLIP tower, selected layer and projector, for one tile.

Tiles are put together outside (`mm_runtime.serving.geometry.anyres`), with the newline vector that
travels beside the graph.
"""

import torch

from mm_runtime.engine_build.commands.towers.llava import LlavaVision, own_features
from mm_runtime.engine_build.commands.towers.llava_onevision import NEWLINE
from mm_runtime.engine_build.commands.towers.tower import Tower, TowerSource, square_tower


def load(source: TowerSource) -> Tower:
    """Return the vision half of a LLaVA-NeXT checkpoint."""
    vision = source.vision
    side, rows = vision.image_size, vision.features_per_image
    grid = (vision.grid_pinpoints or [(side, side)])[0]
    model = source.model()
    own = own_features(model, vision.feature_layer, vision.feature_select)

    def features(pixels: torch.Tensor) -> torch.Tensor:
        # The class reads full images: each entry is the base view of one that fills a grid,
        # and the rows of the base view come first.
        tiles = grid[0] // side * (grid[1] // side) + 1
        output = own(
            pixels[:, None].expand(-1, tiles, -1, -1, -1),
            image_sizes=torch.tensor([grid] * len(pixels)),
        )
        return torch.stack([one[:rows] for one in output.pooler_output])

    module = LlavaVision(model, vision.feature_layer, vision.feature_select)
    newline = model.model.image_newline.detach().numpy()
    return square_tower(module, vision, features, **{NEWLINE: newline})
