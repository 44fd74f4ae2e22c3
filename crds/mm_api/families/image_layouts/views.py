"""A base view and a grid of tiles that follows the image's shape; newlines end rows of patches.

With `features_of_several` each of several images is one view.
"""

from math import sqrt

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import REFUSED, ImageLayout

SHRINK_ABOVE = 1.1
"""A grid is scaled down when its side is more than 1.1 times that of `grid_limit` tiles."""


def grid_tokens(height: int, width: int, *, side: int, limit: int | None) -> int:
    """Return the tokens of an unpadded grid of patches: one more column for the newlines.

    In patches; `side`: of one tile. `limit`: n of anyres_max_n; None: grids are not scaled down.
    """
    ratio = sqrt(height * width / (limit * side**2)) if limit else 1
    if ratio > SHRINK_ABOVE:
        height, width = int(height // ratio), int(width // ratio)
    return height * (width + 1)


def features_per_image(vision: VisionFacts) -> int:
    """Return the most tokens that any image can become: base view and the worst grid.

    Unpadding takes the same number of rows (or columns) from both ends, and an image for which a
    smaller grid would do gets that one; so each grid has few shapes, and all are tried. For 36
    grids of 384 pixels and anyres_max_9 that is 8765, at 1168 x 960 pixels.
    """
    side = vision.image_size // vision.patch_size
    worst = 0
    for height, width in vision.grid_pinpoints or []:
        rows, columns = height // vision.image_size * side, width // vision.image_size * side
        shapes = [(h, columns) for h in range(rows, max(0, rows - side), -2)]
        shapes += [(rows, w) for w in range(columns, max(0, columns - side), -2)]
        found = (grid_tokens(h, w, side=side, limit=vision.grid_limit) for h, w in shapes)
        worst = max(worst, *found)
    return side**2 + worst


def least_features(vision: VisionFacts) -> int:
    """Return the tokens of a base view and one complete tile; 1485 for SigLIP's 384 pixels."""
    side = vision.image_size // vision.patch_size
    return 2 * side**2 + side


VIEWS = ImageLayout(
    "a base view and the tiles of the best grid",
    processor="views",
    encoder="views",
    file_types=("LlavaNextImageProcessor", "LlavaOnevisionImageProcessor"),
    low=REFUSED,
    one_side=True,
    vectors=True,
    features_per_image=features_per_image,
    least_features=least_features,
)
