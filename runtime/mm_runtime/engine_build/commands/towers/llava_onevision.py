"""LLaVA-OneVision's vision half: SigLIP tower and projector, for one tile or one video frame.

Tiles are put together outside (`mm_runtime.serving.geometry.anyres`): what an image becomes depends
on its shape, which no fixed graph can hold. The newline vector travels beside the graph.
"""

import torch

from mm_runtime.engine_build.commands.towers.llava import LlavaVision, own_features
from mm_runtime.engine_build.commands.towers.tower import Tower, TowerSource, square_tower

NEWLINE = "image_newline"
SEVERAL = 2
"""From two images in one conversation on, none is cut into tiles."""


def load(source: TowerSource) -> Tower:
    """Return the vision half of a LLaVA-OneVision checkpoint."""
    side = source.vision.image_size
    model = source.model()
    chosen = model.config.vision_feature_layer, model.config.vision_feature_select_strategy
    own = own_features(model, *chosen)

    def features(pixels: torch.Tensor) -> torch.Tensor:
        # Given several images of one conversation, the class cuts no tiles: one view each,
        # its features, and the newline as the last row.
        output = own(
            pixels,
            image_sizes=torch.full((len(pixels), 2), side),
            batch_num_images=torch.tensor([max(SEVERAL, len(pixels))]),
        )
        return torch.stack([rows[:-1] for rows in output.pooler_output])

    module = LlavaVision(model, *chosen)
    newline = model.model.image_newline.detach().numpy()
    return square_tower(module, source.vision, features, **{NEWLINE: newline})
