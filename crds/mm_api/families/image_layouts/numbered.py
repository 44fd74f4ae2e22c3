"""Tiles of an image of one longer side, and a view of it, each behind tokens of its place."""

from math import ceil, isqrt

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.crops import features_per_image
from mm_api.families.image_layouts.layout import REFUSED, ImageLayout, patches


def frame_tokens(vision: VisionFacts) -> int:
    """Return the tokens among the tiles of the largest grid: two a tile, ends of rows, the view's.

    A line break before the view is one token or two.
    """
    across = isqrt((vision.max_tiles or 1) - 1)
    return across * (2 * across + 1) + 4


def rows_of_image(vision: VisionFacts, height: int, width: int) -> int:
    """Return the features and the tokens among them, by Idefics3ImageProcessor's rounding."""
    lines, columns = _grid(vision, height, width)
    return vision.features_per_image * (lines * columns + 1) + (
        lines * (2 * columns + 1) + (4 if lines else 3)
    )


def _grid(vision: VisionFacts, height: int, width: int) -> tuple[int, int]:
    """Return rows and columns of tiles, none where the view is all there is."""
    if (vision.max_tiles or 1) == 1:
        return 0, 0
    tile, longest = vision.image_size, vision.longest_side or vision.image_size
    ratio = width / height
    high, wide = (
        (_even(longest / ratio), longest) if ratio >= 1 else (longest, _even(longest * ratio))
    )
    if wide >= high:
        high = int(longest / (wide / high))
    else:
        wide = int(longest * (wide / high))
    lines, columns = (max(1, ceil(side / tile)) for side in (high, wide))
    return (0, 0) if lines == columns == 1 else (lines, columns)


def _even(side: float) -> int:
    return max(1, int(side) + int(side) % 2)


NUMBERED = ImageLayout(
    "tiles of the scaled image and a view of all of it, numbered",
    processor="own",
    encoder="",
    file_types=("Idefics3ImageProcessor", "SmolVLMImageProcessor"),
    low=REFUSED,
    high=REFUSED,
    features_per_image=features_per_image,
    frame_tokens=frame_tokens,
    positions_per_tile=patches,
    rows_of_image=rows_of_image,
)
