"""Idefics3 and SmolVLM 1: tiles of the scaled image and a view of all of it, each with its place.

TensorRT-LLM has no class of it (docs/source/models/supported-models.md).
"""

from mm_api.checkpoint.text import beside_tower, decoder_of
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import tower_facts, tower_sizes
from mm_api.families.family import Family
from mm_api.families.image_layouts.numbered import NUMBERED
from mm_api.families.prompt import IMAGES, TEXT, PromptStyle

TOWER = tower_sizes(1152, 3072, 12, 16, 224, 32)
"""Defaults of Idefics3VisionConfig and SmolVLMVisionConfig."""

MERGED = 2
"""scale_factor of Idefics3Config."""

LARGEST_SIDE = 4096
"""MAX_IMAGE_SIZE of Idefics3ImageProcessor, above which it would scale once more."""


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of an Idefics3 or SmolVLM checkpoint; CheckpointError: of other parts."""
    text = decoder_of(config, ("llama",), "llama, whose blocks are planned")
    size = Sizes(section(config, "vision_config") or {}, TOWER, "vision_config")
    side, merged = size("image_size"), Sizes(config, {})("scale_factor", MERGED)
    patches = side // size("patch_size")
    if patches % merged:
        raise invalid(
            f"scale_factor is {merged}; expected a number that divides the {patches} patches along"
            " a side of a tile"
        )
    tile = _edge(processor, "max_image_size", side)
    if tile != side:
        raise invalid(
            f"preprocessor_config.json max_image_size.longest_edge is {tile}; expected"
            f" vision_config.image_size {side}: other tiles have another number of features"
        )
    longest = _edge(processor, "size", 4 * side)
    if longest % side or longest > LARGEST_SIDE:
        raise invalid(
            f"preprocessor_config.json size.longest_edge is {longest}; expected a multiple of"
            f" {side}, the side of a tile, up to {LARGEST_SIDE}"
        )
    across = longest // side if processor.get("do_image_splitting", True) is not False else 0
    vision = tower_facts(
        size,
        features_per_image=(patches // merged) ** 2,  # of one tile, as InternVL's
        merge_size=merged,
        max_tiles=(across**2 if across > 1 else 0) + 1,
        longest_side=longest,
    )
    return beside_tower(config, text, vision)


def _edge(processor: JsonObject, key: str, default: int) -> int:
    where = f"preprocessor_config.json {key}"
    return Sizes(section(processor, key) or {}, {}, where)("longest_edge", default)


WRAPPER = (
    "User:" + IMAGES + "<image>{% endfor %}" + TEXT + "{% endfor %}<end_of_utterance>\nAssistant:"
)


IDEFICS3 = Family(
    name="idefics3",
    title="Idefics3",
    architectures=("Idefics3ForConditionalGeneration",),
    model_type="idefics3",
    read=read,
    layout=NUMBERED,
    on_reference=False,
    prompt=PromptStyle(WRAPPER),
    notes=(
        "small images are scaled up, too: even 364 x 364 pixels are 16 tiles and a view of them",
        "SmolVLM's first checkpoints are of this class",
    ),
)
