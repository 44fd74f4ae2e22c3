"""Dimensions of vision towers, wherever a family keeps them."""

from collections.abc import Sequence
from typing import Any

from mm_api.checkpoint.values import JsonObject, Sizes, invalid
from mm_api.documents.model_facts import VisionFacts

_SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("image_size", "patch_size"),
)


def tower_sizes(*sizes: int) -> dict[str, int]:
    """Return widths of states and perceptron, layers, heads, pixels of image and patch by key."""
    return dict(zip(_SIZES, sizes, strict=True))


SIGLIP = tower_sizes(1152, 4304, 27, 16, 384, 14)
"""SigLIP so400m, the tower of VILA 1.5 and LLaVA-OneVision."""


def tower_facts(size: Sizes, *, heads: str = "num_attention_heads", **more: Any) -> VisionFacts:
    """Return the dimensions of a tower whose keys have their usual names; CheckpointError: not so.

    `size`: the section of the tower with its defaults. `heads`: key of the number of heads.
    """
    image, patch = size("image_size"), size("patch_size")
    if image < patch:
        raise invalid(f"{size.where}.image_size {image} is smaller than patch_size {patch}")
    return VisionFacts(
        hidden_size=size("hidden_size"),
        layers=size("num_hidden_layers"),
        image_size=image,
        patch_size=patch,
        intermediate_size=size("intermediate_size"),
        attention_heads=size(heads),
        **more,
    )


def encoder_parameters(vision: VisionFacts) -> int:
    """Return the weights of a tower's layers, with a bias and two norms of LayerNorm each."""
    width, inner = vision.hidden_size, vision.intermediate_size or 4 * vision.hidden_size
    attention, perceptron = 4 * (width * width + width), 2 * width * inner + inner + width
    return vision.layers * (attention + perceptron + 4 * width)


def image_token(config: JsonObject) -> int | None:
    """Return the id that stands for an image, under either of its names."""
    value = config.get("image_token_id", config.get("image_token_index"))
    return value if isinstance(value, int) else None


def grids_of(pinpoints: Any) -> list[tuple[int, int]]:
    """Return heights and widths of `image_grid_pinpoints`; CheckpointError: it lists others."""
    grids = [pair for pair in pinpoints if _is_pair(pair)] if isinstance(pinpoints, list) else []
    if not grids or len(grids) != len(pinpoints):
        raise invalid(f"image_grid_pinpoints is {str(pinpoints)[:80]}; expected pairs of pixels")
    return [(height, width) for height, width in grids]


def most_tiles(grids: Sequence[tuple[int, int]], tile: int) -> int:
    """Return the tiles of the largest grid, and the base view."""
    return max((height // tile) * (width // tile) for height, width in grids) + 1


def _is_pair(value: Any) -> bool:
    length = 2
    return (
        isinstance(value, list)
        and len(value) == length
        and all(type(side) is int and side > 0 for side in value)
    )
