"""LLaVA-OneVision: a base view and a grid of tiles that follows the image's shape (#features)."""

import re
from math import sqrt

from mm_api.checkpoint.dimensions import Dimensions
from mm_api.checkpoint.text import beside_tower
from mm_api.checkpoint.values import JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import SIGLIP, grids_of, most_tiles, tower_facts
from mm_api.documents.model_facts import VisionFacts
from mm_api.families.family import (
    BYTES_TENSORS,
    ENSEMBLE,
    BlockStyle,
    Decoder,
    Family,
    ImageLayout,
    Recipe,
    Serving,
)
from mm_api.families.prompt import IMAGES, TEXT, PromptStyle

SHRINK_ABOVE = 1.1
"""A grid is scaled down when its side is more than 1.1 times that of `grid_limit` tiles."""

VIDEO_POOL = 2
"""Frames are pooled 2 x 2."""


def grid_tokens(height: int, width: int, *, side: int, limit: int | None) -> int:
    """Return the tokens of an unpadded grid of patches: one more column for the newlines.

    Args:
        height: patches from top to bottom after unpadding.
        width: patches from left to right after unpadding.
        side: patches along a side of one tile.
        limit: n of anyres_max_n; None: grids are not scaled down.
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


def features_of_several(vision: VisionFacts) -> int:
    """Return the rows of one of several images: a single view and a newline, 730."""
    return (vision.image_size // vision.patch_size) ** 2 + 1


def video_features(vision: VisionFacts, frames: int) -> int:
    """Return frames x ceil(27 / 2)^2 + 1: 8 frames are 1569, 32 frames 6273."""
    side = vision.image_size // vision.patch_size
    return frames * (-(-side // VIDEO_POOL)) ** 2 + 1


QWEN2_STYLE = BlockStyle(gated=True, qkv_bias=True)


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a LLaVA-OneVision checkpoint, whose images are tiled by their shape."""
    pinpoints = config.get("image_grid_pinpoints") or processor.get("image_grid_pinpoints")
    ratio = str(config.get("vision_aspect_ratio", "anyres_max_9"))
    limit = re.fullmatch(r"anyres_max_(\d+)", ratio)
    if limit is None:
        raise invalid(f"vision_aspect_ratio is {ratio!r}; expected anyres_max_<n>")
    size = Sizes(section(config, "vision_config") or {}, SIGLIP, "vision_config")
    image = size("image_size")
    grids = grids_of(pinpoints)
    base = (image // size("patch_size")) ** 2
    vision = tower_facts(
        size,
        features_per_image=base,  # of one tile; the worst image is the planner's business
        grid_pinpoints=grids,
        grid_limit=int(limit[1]),
        max_tiles=most_tiles(grids, image),
    )
    text = section(config, "text_config") or {}
    return beside_tower(config, text, vision)


WRAPPER = (
    "<|im_start|>user "
    + IMAGES
    + "<image>\n{% endfor %}"
    + "{% for part in messages[0]['content'] if part['type'] == 'video' %}<video>\n{% endfor %}"
    + TEXT
    + "{% endfor %}<|im_end|><|im_start|>assistant\n"
)


LLAVA_ONEVISION = Family(
    name="llava-onevision",
    title="LLaVA-OneVision",
    architectures=("LlavaOnevisionForConditionalGeneration",),
    model_type="llava_onevision",
    read=read,
    dtypes=("float16", "bfloat16"),
    dtype_reason="upstream's engines are float16",
    style=QWEN2_STYLE,
    recipe=Recipe(
        converter="qwen", build_flags=(("gemm_plugin", "{dtype}"),), vision_type="llava_onevision"
    ),
    image_layout=ImageLayout.VIEWS,
    decoder=Decoder.BESIDE_TOWER,
    fused_passes=True,
    prompt=PromptStyle(WRAPPER, video="<video>", opening="<|im_start|>"),
    serving=Serving(ENSEMBLE, (*BYTES_TENSORS, "video_bytes_input"), "<|im_start|>user {text}"),
    features_per_image=features_per_image,
    features_of_several=features_of_several,
    positions_per_tile=lambda vision: (vision.image_size // vision.patch_size) ** 2,
    default_input_tokens=7500,  # upstream's documented engine: input 7500, sequence 7600
    default_output_tokens=512,
    template_tokens=32,
    pipeline_parallel=True,
    max_images=1,
    max_images_reason="upstream's models do not serve several images in one request",
    quantizations=("FP8", "INT8WeightOnly", "INT4WeightOnly", "INT4AWQ", "SmoothQuant"),
    video_features=video_features,
    adapters=True,
    notes=(
        "the guide's 7300 tokens bound no image in general: 1168 x 960 pixels are 8765",
        "even an image of one tile is base view and tile: 1485 tokens",
    ),
)
