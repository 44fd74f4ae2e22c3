"""Tiles of an image of one longer side, and a view of it, each behind tokens of its place."""

from math import isqrt

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.crops import features_per_image
from mm_api.families.image_layouts.layout import BY_CHECKPOINT, ImageLayout, patches


def frame_tokens(vision: VisionFacts) -> int:
    """Return the tokens among the tiles of the largest grid: two a tile, ends of rows, the view's.

    A line break before the view is one token or two.
    """
    across = isqrt((vision.max_tiles or 1) - 1)
    return across * (2 * across + 1) + 4


NUMBERED = ImageLayout(
    "tiles of the scaled image and a view of all of it, numbered",
    processor="numbered",
    encoder="",
    file_types=("Idefics3ImageProcessor", "SmolVLMImageProcessor"),
    low=BY_CHECKPOINT,
    high=BY_CHECKPOINT,
    features_per_image=features_per_image,
    frame_tokens=frame_tokens,
    positions_per_tile=patches,
)
