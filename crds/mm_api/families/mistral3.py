"""Mistral Small 3.1: images of any shape in lines of features, each with a token that ends it.

TensorRT-LLM's PyTorch backend serves it since 1.0 (release note of 1.0.0rc3: "Support Mistral3.1
VLM model"); there is no vision builder of it.
"""

from typing import Any

from mm_api.checkpoint.text import beside_tower, decoder_of
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import tower_facts, tower_sizes
from mm_api.documents.model_facts import VisionFacts
from mm_api.families.family import Family, PyTorchServing
from mm_api.families.image_layouts.layout import LINES
from mm_api.families.llava_next import check_window
from mm_api.families.prompt import IMAGES, TEXT, PromptStyle
from mm_api.sentences import a

TOWER = tower_sizes(1024, 4096, 24, 16, 1024, 16)
"""Defaults of PixtralVisionConfig."""

LONGEST_EDGE = 1024
"""size of PixtralImageProcessor, for checkpoints that do not name it."""


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a Mistral Small 3.1 checkpoint; CheckpointError as `parts_of`."""
    merged = Sizes(config, {})("spatial_merge_size", 2)
    return parts_of(config, processor, merged=merged, model="Mistral-Small-3.1 or -3.2")


def parts_of(config: JsonObject, processor: JsonObject, *, merged: int, model: str) -> Dimensions:
    """Return the parts of a checkpoint with Pixtral's tower and a language model of Mistral's.

    `merged`: patches a side that become one feature. `model`: to use where this one is refused,
    with a CheckpointError.
    """
    known = f"mistral, whose blocks are planned. Use {a(model)}"
    text = decoder_of(config, ("mistral",), known)
    check_window(text)
    layer = config.get("vision_feature_layer", -1)
    if layer != -1:
        raise invalid(f"vision_feature_layer is {layer!r}; expected -1, as in {model}")
    vision = lines_of(config, processor, merged=merged)
    return beside_tower(config, text, vision)


def lines_of(config: JsonObject, processor: JsonObject, *, merged: int) -> VisionFacts:
    """Return the dimensions of Pixtral's tower for the largest image; CheckpointError: wrong sizes.

    `merged`: patches a side that become one feature.
    """
    size = Sizes(section(config, "vision_config") or {}, TOWER, "vision_config")
    patch, unit = size("patch_size"), size("patch_size") * merged
    cut = _side(processor.get("patch_size", patch))
    if cut not in (patch, unit):
        raise invalid(
            f"preprocessor_config.json cuts patches of {cut!r} pixels, and vision_config.patch_size"
            f" is {patch}: the files are of two checkpoints"
        )
    edges = Sizes(section(processor, "size") or {}, {}, "preprocessor_config.json size")
    longest = edges("longest_edge", LONGEST_EDGE)
    # Versions of vLLM count features by the one and resize by the other, and then end.
    if longest % unit or longest != size("image_size"):
        raise invalid(
            f"preprocessor_config.json size.longest_edge is {longest}; expected"
            f" vision_config.image_size, {size('image_size')}, and a multiple of {unit} pixels, the"
            " side of a feature: servers count an image's features by either"
        )
    tower = tower_facts(
        size, features_per_image=(longest // unit) ** 2, feature_select="full", merge_size=merged
    )
    return tower.model_copy(update={"min_pixels": unit**2, "max_pixels": longest**2})


def _side(value: Any) -> Any:
    equal = isinstance(value, dict) and value.get("height") == value.get("width")
    return value.get("height") if equal else value


WRAPPER = "[INST]" + TEXT + "{% endfor %}" + IMAGES + "[IMG]{% endfor %}[/INST]"


MISTRAL3 = Family(
    name="mistral3",
    title="Mistral Small 3.1",
    architectures=("Mistral3ForConditionalGeneration",),
    model_type="mistral3",
    read=read,
    layout=LINES,
    on_reference=False,
    prompt=PromptStyle(WRAPPER, "[IMG]"),
    pytorch=PyTorchServing(images=True),
    notes=(
        "an image of 1540 x 1540 pixels is 55 lines of 55 features and a token each: 3,080 tokens",
        "videos are not served",
    ),
)
