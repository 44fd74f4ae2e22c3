"""Patches of an image that keeps its shape; positions have three coordinates (M-RoPE)."""

from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import ImageLayout

MAX_HW_DIMS = 5184
"""Patches of one image in the vision builder's default profile (--max_hw_dims)."""

FRAMES = 2
"""Frames that become one patch in time."""

_FLOAT32_BYTES = 4


def features_per_image(vision: VisionFacts) -> int:
    """Return the tokens of the largest image that the vision profile takes: 5184 / 4 = 1296."""
    merged = (vision.merge_size or 2) ** 2
    largest = (vision.max_pixels or 0) // vision.patch_size**2
    return max(1, min(largest, MAX_HW_DIMS) // merged)


def pixels_side(vision: VisionFacts) -> int:
    side = vision.patch_size * (vision.merge_size or 2)
    return int(features_per_image(vision) ** 0.5) * side


def video_features(vision: VisionFacts, frames: int) -> int:
    """Return the tokens of the largest frames; two of them become one patch in time."""
    return -(-frames // FRAMES) * features_per_image(vision)


def rotary_bytes(positions: int, head_size: int, _tokens: int) -> int:
    """Return MROPE_ROTARY_COS_SIN, float32 for the entire context: 16,777,216 bytes for 7B."""
    return positions * head_size * _FLOAT32_BYTES


GRID = ImageLayout(
    "patches, of any shape",
    processor="grids",
    encoder="grids",
    engine_tensors="patches",
    file_types=("Qwen2VLImageProcessor",),
    plain=False,
    rotated=True,
    masked=True,
    features_per_image=features_per_image,
    positions_per_tile=lambda _: MAX_HW_DIMS,
    pixels_side=pixels_side,
    extra_output_bytes=rotary_bytes,
    video_features=video_features,
    frames_per_tile=FRAMES,
)
