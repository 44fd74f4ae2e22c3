"""Tiles of the grid of the nearest shape and a view of all of it, each with a token behind it.

Or the grid at several scales, joined before the projector, with one token behind all.

The rules are those of `_process` and `_postprocess` of tensorrt_llm/_torch/models/modeling_vila.py
(NVIDIA/TensorRT-LLM at 0185c281) and of modeling_multimodal_utils.py (at 000a01de).
"""

from dataclasses import dataclass

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import REFUSED, ImageLayout, patches


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an image becomes in the prompt."""

    features: int
    newlines: int

    @property
    def count(self) -> int:
        return self.features + self.newlines


def features_of_square(side: int, patch: int, merged: int) -> int:
    """Return the features of a tile: its grid of patches is rounded up with zeros.

    448 pixels in patches of 14 are 32 x 32; of 3 x 3 they are 11 x 11 features, of 2 x 2 16 x 16.
    """
    return (-(-(side // patch) // merged)) ** 2


def tokens_of_grid(vision: VisionFacts, tiles: int) -> Tokens:
    """Return what an image becomes that is cut into so many tiles.

    Each tile has a newline behind it, and of more than one there is a view of all of it. At several
    scales the tiles of the last one are joined again, and one newline ends the image.
    """
    if vision.scales:
        return Tokens(tiles * vision.features_per_image, 1)
    views = tiles + (tiles > 1)
    return Tokens(views * vision.features_per_image, views)


def largest_grid(vision: VisionFacts) -> int:
    """Return the tiles of the largest grid, without the view of all of it."""
    most = vision.max_tiles or 1
    return most if vision.scales else max(1, most - 1)


def tiles_of_tower(vision: VisionFacts) -> int:
    """Return the tiles that the tower reads of the largest image: every scale's, or the view."""
    most = vision.max_tiles or 1
    if vision.scales is None:
        return most
    first = vision.scales[0]
    return sum((scale // first) ** 2 for scale in vision.scales[:-1]) + most


def features_per_image(vision: VisionFacts) -> int:
    """Return the features of the most tiles: 13 x 121 of NVILA-Lite, 12 x 256 of NVILA."""
    return tokens_of_grid(vision, largest_grid(vision)).features


def frame_tokens(vision: VisionFacts) -> int:
    return tokens_of_grid(vision, largest_grid(vision)).newlines


ENDED = ImageLayout(
    "tiles of the grid of the nearest shape and a view, each with a newline",
    processor="ended",
    encoder="",
    low=REFUSED,
    high=REFUSED,
    file_types=None,
    one_pass=True,
    features_per_image=features_per_image,
    frame_tokens=frame_tokens,
    tiles_per_image=tiles_of_tower,
    positions_per_tile=patches,
)
