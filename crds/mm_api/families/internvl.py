"""InternVL 3: tiles of the grid of the nearest shape, and a view of all of it (#features).

The class of transformers, whose checkpoints end in `-hf`. TensorRT-LLM's PyTorch backend has no
class of it: none of @register_auto_model in tensorrt_llm/_torch/models is
InternVLForConditionalGeneration, in the newest sources that were read; older tags were not.
"""

from typing import Any

from mm_api.checkpoint.text import beside_tower, decoder_of
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import tower_facts, tower_sizes
from mm_api.families.family import Family
from mm_api.families.image_layouts.crops import CROPS
from mm_api.families.prompt import PromptStyle, chatml
from mm_api.families.text_block import QWEN2

DECODERS = ("qwen2", "qwen3", "llama")

TOWER = tower_sizes(1024, 4096, 24, 16, 448, 14)
"""Defaults of InternVLVisionConfig."""

MOST_TILES = 12
"""max_patches of GotOcr2ImageProcessor, which these checkpoints name."""

MERGED = 2
"""Patches a side that become one feature: downsample_ratio is 0.5."""


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of an InternVL checkpoint; CheckpointError: not as InternVL 3's."""
    known = f"one of {', '.join(DECODERS)}, whose blocks are planned. Use an InternVL3-*-hf"
    text = decoder_of(config, DECODERS, known)
    if text.get("use_sliding_window"):
        raise invalid("text_config.use_sliding_window is true; expected false")
    for key, expected in (
        ("downsample_ratio", 1 / MERGED),
        ("vision_feature_layer", -1),
        ("vision_feature_select_strategy", "default"),
    ):
        if config.get(key, expected) != expected:
            raise invalid(f"{key} is {config[key]!r}; expected {expected!r}, as in InternVL 3")
    values = {key: _side(value) for key, value in (section(config, "vision_config") or {}).items()}
    size = Sizes(values, TOWER, "vision_config")
    reads = Sizes(processor, {}, "preprocessor_config.json")
    tiles, least = reads("max_patches", MOST_TILES), reads("min_patches", 1)
    side = size("image_size") // size("patch_size") // MERGED
    vision = tower_facts(
        size,
        features_per_image=side**2,  # of one tile; the worst image is the planner's business
        feature_select="default",
        merge_size=MERGED,
        min_tiles=least if least > 1 else None,
        max_tiles=tiles + (tiles > 1),
    )
    return beside_tower(config, text, vision)


def _side(value: Any) -> Any:
    equal = isinstance(value, list) and value and all(one == value[0] for one in value)
    return value[0] if equal else value


WRAPPER = chatml("<IMG_CONTEXT>\n")


INTERNVL = Family(
    name="internvl",
    title="InternVL 3",
    architectures=("InternVLForConditionalGeneration",),
    model_type="internvl",
    read=read,
    text=QWEN2,
    layout=CROPS,
    on_reference=False,
    prompt=PromptStyle(
        WRAPPER, "<IMG_CONTEXT>", framed="<img><IMG_CONTEXT></img>", opening="<|im_start|>"
    ),
    template_tokens=48,
    notes=(
        "an image is up to 12 tiles and then a view of all of it, each of 256 tokens",
        "videos are not served",
    ),
)
