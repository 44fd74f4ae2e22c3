"""Patches of an image that keeps its shape; a token ends each line of features."""

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import ImageLayout, patches


def lines_per_image(vision: VisionFacts) -> int:
    """Return the lines of the largest image, each of which a token ends."""
    return vision.image_size // (vision.patch_size * (vision.merge_size or 1))


LINES = ImageLayout(
    "patches, of any shape, in lines",
    processor="lines",
    encoder="",
    file_types=("PixtralImageProcessor",),
    plain=False,
    frame_tokens=lines_per_image,
    positions_per_tile=patches,
)
