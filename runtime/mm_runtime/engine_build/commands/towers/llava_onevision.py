"""LLaVA-OneVision's vision half: SigLIP tower and projector, for one tile or one video frame.

Tiles are put together outside (`mm_runtime.serving.geometry.anyres`): what an image becomes depends
on its shape, which no fixed graph can hold. The newline vector travels beside the graph.
"""

from pathlib import Path

import torch
import transformers

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.engine_build.commands.towers.llava import LlavaVision
from mm_runtime.engine_build.commands.towers.tower import Tower, load_without_layers, square_tower

NEWLINE = "image_newline"
SEVERAL = 2
"""From two images in one conversation on, none is cut into tiles."""


def load(llm: Path, facts: ModelFacts, trust_remote_code: bool) -> Tower:  # noqa: FBT001 (one signature for all)
    """Return the vision half of a LLaVA-OneVision checkpoint."""
    assert facts.vision is not None  # noqa: S101 (the family has one)
    side = facts.vision.image_size
    model = load_without_layers(
        transformers.LlavaOnevisionForConditionalGeneration,
        llm,
        trust_remote_code=trust_remote_code,
    )
    config = model.config

    def features(pixels: torch.Tensor) -> torch.Tensor:
        # Given several images of one conversation, the class cuts no tiles: one view each,
        # its features, and the newline as the last row.
        output = model.model.get_image_features(
            pixel_values=pixels,
            image_sizes=torch.full((len(pixels), 2), side),
            vision_feature_layer=config.vision_feature_layer,
            vision_feature_select_strategy=config.vision_feature_select_strategy,
            batch_num_images=torch.tensor([max(SEVERAL, len(pixels))]),
        )
        return torch.stack([rows[:-1] for rows in output.pooler_output])

    module = LlavaVision(model, config.vision_feature_layer, config.vision_feature_select_strategy)
    newline = model.model.image_newline.detach().numpy()
    return square_tower(module, facts.vision, features, **{NEWLINE: newline})
