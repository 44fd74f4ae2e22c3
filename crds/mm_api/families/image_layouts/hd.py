"""Tiles of the widest grid that an image can be scaled to, before a view of all of it.

Features are in lines, each with a vector at its end; a separator is between tiles and view.
"""

from math import isqrt

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import REFUSED, ImageLayout


def features_per_image(vision: VisionFacts) -> int:
    """Return the rows of a column of all tiles and of the view: 17 x 156 + 1 = 2,653.

    A column has the most lines, of which each ends with a vector.
    """
    lines = isqrt(vision.features_per_image)
    return (vision.max_tiles or 1) * (vision.features_per_image + lines) + 1


HD = ImageLayout(
    "tiles of the widest grid in lines, then a view of all of it",
    processor="hd",
    encoder="hd",
    file_types=("Phi4MultimodalImageProcessor",),
    low=REFUSED,
    vectors=True,
    features_per_image=features_per_image,
)
