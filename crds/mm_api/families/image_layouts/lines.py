"""Patches of an image that keeps its shape; a token ends each line of features."""

from math import ceil, floor

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import REFUSED, ImageLayout, patches


def lines_per_image(vision: VisionFacts) -> int:
    """Return the lines of the largest image, each of which a token ends."""
    return vision.image_size // (vision.patch_size * (vision.merge_size or 1))


def rows_of_image(vision: VisionFacts, height: int, width: int) -> int:
    """Return the features and the ends of their lines, as PixtralProcessor of transformers.

    0: a strip, of which nothing is left once its longer side fits.
    """
    shrink = max(1.0, max(height, width) / vision.image_size)
    unit = vision.patch_size * (vision.merge_size or 1)
    lines, columns = (ceil(floor(side / shrink) / unit) for side in (height, width))
    return lines * (columns + 1) if columns else 0


LINES = ImageLayout(
    "patches, of any shape, in lines",
    processor="own",
    encoder="",
    low=REFUSED,
    high=REFUSED,
    file_types=("PixtralImageProcessor",),
    plain=False,
    frame_tokens=lines_per_image,
    positions_per_tile=patches,
    rows_of_image=rows_of_image,
)
