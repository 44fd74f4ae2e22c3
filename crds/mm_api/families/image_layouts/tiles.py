"""Tiles that attend to each other, beside a mask of those that are there."""

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import ImageLayout, patches


def features_per_image(vision: VisionFacts) -> int:
    """Return tiles x positions: 4 x 1601 = 6404 at 560 pixels, 4 x 1025 = 4100 at 448."""
    return (vision.max_tiles or 1) * (patches(vision) + 1)


TILES = ImageLayout(
    "tiles on a canvas, read by cross attention",
    processor="tiles",
    encoder="tiles",
    engine_tensors="tiles",
    file_types=("MllamaImageProcessor",),
    plain=False,
    one_side=True,
    masked=True,
    stores_scores=True,
    fixed_features=True,
    features_per_image=features_per_image,
    # One entry of the batch is a complete image: its tiles attend to each other.
    tiles_per_image=lambda _: 1,
    positions_per_tile=features_per_image,
    # The mask of cross attention is BOOL on the GPU: one byte per token of both sides.
    extra_output_bytes=lambda sequence, _head, tokens: sequence * tokens,
)
