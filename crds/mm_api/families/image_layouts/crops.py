"""Tiles of the grid of the nearest shape, and a view of all of it; each as many features."""

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import ImageLayout


def features_per_image(vision: VisionFacts) -> int:
    """Return the rows of the most tiles and the base view: 13 x 256 = 3,328."""
    return vision.features_per_image * (vision.max_tiles or 1)


CROPS = ImageLayout(
    "tiles of the grid of the nearest shape, and a view of all of it",
    processor="crops",
    encoder="",
    file_types=("GotOcr2ImageProcessor",),
    one_side=True,
    features_per_image=features_per_image,
)
