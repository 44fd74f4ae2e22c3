"""Dimensions of the other families that take pictures. Each keeps them in a place of its own."""

import re
from math import isqrt
from typing import Any

from mm_api.checkpoint.text import text_facts
from mm_api.checkpoint.values import JsonObject, Sizes, invalid, section
from mm_api.documents.model_facts import TextFacts, VisionFacts

BLIP2_TOWER = {
    "hidden_size": 1408,
    "intermediate_size": 6144,
    "num_hidden_layers": 39,
    "num_attention_heads": 16,
    "image_size": 224,
    "patch_size": 14,
}
"""Blip2VisionConfig: published checkpoints leave all of it out."""

SIGLIP = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 384,
    "patch_size": 14,
}
"""SigLIP so400m, the tower of VILA 1.5 and LLaVA-OneVision."""

QWEN2_VL_TOWER = {"embed_dim": 1280, "depth": 32, "num_heads": 16, "patch_size": 14}
MLLAMA_TOWER = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "attention_heads": 16,
    "image_size": 448,
    "patch_size": 14,
    "max_num_tiles": 4,
}
QWEN2_VL_PIXELS = (56 * 56, 28 * 28 * 1280)
"""min_pixels and max_pixels of Qwen2VLImageProcessor, for checkpoints that do not name them."""

Parts = tuple[TextFacts, VisionFacts, int | None]


def blip2(config: JsonObject, _: JsonObject) -> Parts:
    """Return the parts of a BLIP-2 checkpoint with OPT."""
    text = dict(section(config, "text_config") or {})
    text.setdefault("model_type", "opt")
    return text_facts(text, tied_embeddings=True), blip2_tower(config), image_token(config)


def blip2_tower(config: JsonObject) -> VisionFacts:
    """Return the vision half of a BLIP-2 checkpoint: each query token becomes a feature."""
    size = Sizes(section(config, "vision_config") or {}, BLIP2_TOWER, "vision_config")
    queries = Sizes(config, {"num_query_tokens": 32})("num_query_tokens")
    return _tower(size, features_per_image=queries, query_tokens=queries)


def vila(config: JsonObject, _: JsonObject) -> Parts:
    """Return the parts of a VILA 1.5 checkpoint: 2 x 2 patches become a feature, rounded up.

    Raises:
        CheckpointError: NVILA and other variants whose pictures become a varying number of tiles.
    """
    tower = section(config, "vision_tower_cfg") or {}
    projector = str((section(config, "mm_projector_cfg") or {}).get("mm_projector_type", ""))
    ratio = str(config.get("image_aspect_ratio", "resize"))
    if "dynamic" in ratio or config.get("s2") or config.get("dynamic_s2"):
        raise invalid(
            f"image_aspect_ratio is {ratio!r} (s2: {bool(config.get('s2'))}): dynamic tiling"
            " (NVILA) gives each picture another number of features, and Triton's preprocessing"
            " model divides one fixed number back from the engine. Use a VILA1.5 checkpoint."
        )
    if projector not in {"mlp_downsample", ""}:
        raise invalid(
            f"mm_projector_cfg.mm_projector_type is {projector!r}; expected 'mlp_downsample'"
            " (VILA1.5), whose features per image are known"
        )
    size = Sizes(tower, SIGLIP, "vision_tower_cfg")
    grid = size("image_size") // size("patch_size")
    vision = _tower(size, features_per_image=(-(-grid // 2)) ** 2, merge_size=2)
    return text_facts(section(config, "llm_cfg") or {}, where="llm_cfg"), vision, None


def onevision(config: JsonObject, processor: JsonObject) -> Parts:
    """Return the parts of a LLaVA-OneVision checkpoint, whose pictures are tiled by their shape."""
    pinpoints = config.get("image_grid_pinpoints") or processor.get("image_grid_pinpoints")
    ratio = str(config.get("vision_aspect_ratio", "anyres_max_9"))
    limit = re.fullmatch(r"anyres_max_(\d+)", ratio)
    if limit is None:
        raise invalid(f"vision_aspect_ratio is {ratio!r}; expected anyres_max_<n>")
    size = Sizes(section(config, "vision_config") or {}, SIGLIP, "vision_config")
    image = size("image_size")
    grids = _grids(pinpoints)
    base = (image // size("patch_size")) ** 2
    tiles = max((height // image) * (width // image) for height, width in grids) + 1
    vision = _tower(
        size,
        features_per_image=base,  # of one tile; the worst picture is the planner's business
        grid_pinpoints=grids,
        grid_limit=int(limit[1]),
        max_tiles=tiles,
    )
    text = section(config, "text_config") or {}
    tied = bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
    return text_facts(text, tied_embeddings=tied), vision, image_token(config)


def mllama(config: JsonObject, processor: JsonObject) -> Parts:
    """Return the parts of a Llama 3.2 Vision checkpoint: pictures are read by cross attention."""
    text = section(config, "text_config") or {}
    crossing = text.get("cross_attention_layers") or []
    size = Sizes(section(config, "vision_config") or {}, MLLAMA_TOWER, "vision_config")
    tiles = size("max_num_tiles", processor.get("max_image_tiles"))
    positions = (size("image_size") // size("patch_size")) ** 2 + 1
    vision = _tower(
        size, heads="attention_heads", features_per_image=tiles * positions, max_tiles=tiles
    )
    return text_facts(text, cross_attention_layers=len(crossing)), vision, image_token(config)


def qwen2_vl(config: JsonObject, processor: JsonObject) -> Parts:
    """Return the parts of a Qwen2-VL checkpoint: pictures keep their size, within bounds."""
    values = section(config, "vision_config") or {}
    size = Sizes(values, QWEN2_VL_TOWER, "vision_config")
    text = section(config, "text_config") or config
    merge = size("spatial_merge_size", 2)
    bounds = Sizes(processor, {}, "preprocessor_config.json")
    least = bounds("min_pixels", QWEN2_VL_PIXELS[0])
    most = bounds("max_pixels", QWEN2_VL_PIXELS[1])
    unit = size("patch_size") * merge
    width = size("embed_dim")
    vision = VisionFacts(
        hidden_size=width,
        layers=size("depth"),
        image_size=max(unit, isqrt(most) // unit * unit),
        patch_size=size("patch_size"),
        features_per_image=max(1, most // unit**2),
        intermediate_size=int(width * float(values.get("mlp_ratio", 4))),
        attention_heads=size("num_heads"),
        merge_size=merge,
        min_pixels=least,
        max_pixels=most,
    )
    where = "text_config" if text is not config else ""
    tied = bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
    return text_facts(text, where=where, tied_embeddings=tied), vision, image_token(config)


def _tower(size: Sizes, *, heads: str = "num_attention_heads", **more: Any) -> VisionFacts:
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


def _grids(value: Any) -> list[tuple[int, int]]:
    grids = [pair for pair in value if _is_pair(pair)] if isinstance(value, list) else []
    if not grids or len(grids) != len(value):
        raise invalid(f"image_grid_pinpoints is {str(value)[:80]}; expected pairs of pixels")
    return [(height, width) for height, width in grids]


def _is_pair(value: Any) -> bool:
    length = 2
    return (
        isinstance(value, list)
        and len(value) == length
        and all(type(side) is int and side > 0 for side in value)
    )


def image_token(config: JsonObject) -> int | None:
    """Return the id that stands for a picture, under either of its names."""
    value = config.get("image_token_id", config.get("image_token_index"))
    return value if isinstance(value, int) else None
