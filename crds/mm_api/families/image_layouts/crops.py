"""Tiles of the grid of the nearest shape, and a view of all of it; each as many features."""

from functools import lru_cache

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import REFUSED, ImageLayout

FILLED = 0.5
"""Among two grids of one shape the larger one is taken for images of more than this part of it."""


@lru_cache(maxsize=8)
def grids_of(least: int, most: int) -> tuple[tuple[int, int], ...]:
    """Return all grids of so many tiles, small ones first, and of those narrow ones first."""
    grids = [
        (rows, columns)
        for columns in range(1, most + 1)
        for rows in range(1, most + 1)
        if least <= rows * columns <= most
    ]
    return tuple(sorted(grids, key=lambda grid: grid[0] * grid[1]))


def tiles_of_image(tile: int, height: int, width: int, *, least: int, most: int) -> int:
    """Return the tiles of the grid that GotOcr2ImageProcessor of transformers chooses.

    `tile`: pixels of a tile's side. `least`, `most`: tiles of a grid.
    """
    best, distance = 1, float("inf")
    for rows, columns in grids_of(least, most):
        found = abs(width / height - columns / rows)
        fills = height * width > FILLED * tile * tile * columns * rows
        if found < distance or (found == distance and fills):
            best, distance = rows * columns, found
    return best


def features_per_image(vision: VisionFacts) -> int:
    """Return the rows of the most tiles and the base view: 13 x 256 = 3,328."""
    return vision.features_per_image * (vision.max_tiles or 1)


def rows_of_image(vision: VisionFacts, height: int, width: int) -> int:
    most = max(1, (vision.max_tiles or 1) - 1)
    tiles = tiles_of_image(vision.image_size, height, width, least=vision.min_tiles or 1, most=most)
    return vision.features_per_image * (tiles + (tiles > 1))


CROPS = ImageLayout(
    "tiles of the grid of the nearest shape, and a view of all of it",
    processor="own",
    encoder="",
    low=REFUSED,
    high=REFUSED,
    file_types=("GotOcr2ImageProcessor",),
    one_side=True,
    features_per_image=features_per_image,
    rows_of_image=rows_of_image,
)
