"""Dimensions of vision towers, wherever a family keeps them."""

from typing import Any

from mm_api.checkpoint.values import JsonObject, Sizes, invalid
from mm_api.documents.model_facts import VisionFacts

SIGLIP = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 384,
    "patch_size": 14,
}
"""SigLIP so400m, the tower of VILA 1.5 and LLaVA-OneVision."""


def tower_facts(size: Sizes, *, heads: str = "num_attention_heads", **more: Any) -> VisionFacts:
    """Return the dimensions of a tower whose keys have their usual names.

    Args:
        size: the section of the tower with its defaults.
        heads: key of the number of heads.
        more: what the family says besides.

    Raises:
        CheckpointError: a value is missing, of a wrong type or out of range.
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


def image_token(config: JsonObject) -> int | None:
    """Return the id that stands for a picture, under either of its names."""
    value = config.get("image_token_id", config.get("image_token_index"))
    return value if isinstance(value, int) else None
