"""LLaVA-OneVision: a base view and a grid of tiles that follows the image's shape (#features)."""

import re
from dataclasses import replace

from mm_api.checkpoint.text import beside_tower
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import SIGLIP, grids_of, most_tiles, tower_facts
from mm_api.documents.model_facts import ModelFacts, VisionFacts
from mm_api.families.family import QWEN_ENGINES, Family
from mm_api.families.image_layouts.layout import patches
from mm_api.families.image_layouts.views import VIEWS
from mm_api.families.prompt import IMAGES, TEXT, VIDEOS, PromptStyle
from mm_api.families.text_block import QWEN2

VIDEO_POOL = 2
"""Frames are pooled 2 x 2."""


def features_of_several(vision: VisionFacts) -> int:
    """Return the rows of one of several images: a single view and a newline, 730."""
    return (vision.image_size // vision.patch_size) ** 2 + 1


def video_features(vision: VisionFacts, frames: int) -> int:
    """Return frames x ceil(27 / 2)^2 + 1: 8 frames are 1569, 32 frames 6273."""
    side = vision.image_size // vision.patch_size
    return frames * (-(-side // VIDEO_POOL)) ** 2 + 1


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


_VLLM_VIEWS = 9
"""The n of `anyres_max_n` in llava_onevision.py of vLLM 0.32, whatever config.json says."""


def vllm_unfit(facts: ModelFacts) -> str | None:
    limit = facts.vision and facts.vision.grid_limit
    if limit == _VLLM_VIEWS:
        return None
    return (
        f"vLLM packs views as anyres_max_{_VLLM_VIEWS}, and vision_aspect_ratio of config.json is "
        f"anyres_max_{limit}"
    )


WRAPPER = (
    "<|im_start|>user "
    + IMAGES
    + "<image>\n{% endfor %}"
    + VIDEOS
    + "<video>\n{% endfor %}"
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
    text=QWEN2,
    trtllm=replace(
        QWEN_ENGINES,
        vision_type="llava_onevision",
        max_images=1,
        max_images_reason="upstream's models do not serve several images in one request",
    ),
    layout=replace(
        VIEWS,
        features_of_several=features_of_several,
        positions_per_tile=patches,
        video_features=video_features,
    ),
    fused_passes=True,
    vllm_unfit=vllm_unfit,
    prompt=PromptStyle(WRAPPER, video="<video>", opening="<|im_start|>"),
    default_input_tokens=7500,  # upstream's documented engine: input 7500, sequence 7600
    default_output_tokens=512,
    template_tokens=32,
    notes=(
        "the guide's 7300 tokens are engine.maxMultimodalLen: 1168 x 960 pixels would be 8765",
        "even an image of one tile is base view and tile: 1485 tokens",
    ),
)
