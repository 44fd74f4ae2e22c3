"""Dimensions of a LLaVA 1.5 checkpoint.

LLaVA's original layout (liuhaotian) is refused: it loads without an error and has no vision_config.
"""

from typing import Any, Literal

from mm_api.checkpoint.text import text_facts
from mm_api.checkpoint.values import JsonObject, Sizes, invalid, section
from mm_api.documents.model_facts import TextFacts, VisionFacts

VISION_DEFAULTS = {"hidden_size": 768, "num_hidden_layers": 12, "image_size": 224, "patch_size": 32}
"""CLIPVisionConfig, for keys that a given vision_config leaves out."""

TOWER_DEFAULTS = {"hidden_size": 1024, "num_hidden_layers": 24, "image_size": 336, "patch_size": 14}
"""LlavaConfig's own tower (CLIP ViT-L/14-336), when there is no vision_config at all."""

FEATURE_LAYER_DEFAULT = -2
IMAGE_TOKEN_DEFAULT = 32000


def read(config: JsonObject) -> tuple[TextFacts, VisionFacts, int]:
    """Return text model, vision tower and the id of the image token.

    Raises:
        CheckpointError: `ConfigInvalid`: a value of a wrong type or range, or the original layout.
    """
    if "mm_vision_tower" in config:
        raise invalid(
            "config.json has mm_vision_tower: this is LLaVA's original layout, which loads"
            " without an"
            " error and without a vision tower. Use the converted checkpoint (llava-hf/...-hf)."
        )
    vision = _vision(config)
    key = "image_token_id" if "image_token_id" in config else "image_token_index"
    image_token = Sizes(config, {})(key, IMAGE_TOKEN_DEFAULT, smallest=0)
    return text_facts(section(config, "text_config") or {}), vision, image_token


def _vision(config: JsonObject) -> VisionFacts:
    given = section(config, "vision_config")
    size = Sizes(given or {}, TOWER_DEFAULTS if given is None else VISION_DEFAULTS, "vision_config")
    image, patch, layers = size("image_size"), size("patch_size"), size("num_hidden_layers")
    if image < patch:
        raise invalid(f"vision_config.image_size {image} is smaller than patch_size {patch}")
    layer = config.get("vision_feature_layer", FEATURE_LAYER_DEFAULT)
    # hidden_states holds the embeddings and every layer's output: layers + 1 entries.
    if isinstance(layer, bool) or not isinstance(layer, int) or not -layers - 1 <= layer <= layers:
        raise invalid(
            f"vision_feature_layer is {layer!r}; expected one whole number from {-layers - 1} to"
            f" {layers}"
        )
    select = _select(config.get("vision_feature_select_strategy", "default"))
    patches = (image // patch) ** 2
    return VisionFacts(
        hidden_size=size("hidden_size"),
        layers=layers,
        image_size=image,
        patch_size=patch,
        features_per_image=patches + (1 if select == "full" else 0),
        feature_layer=layer,
        feature_select=select,
    )


def _select(value: Any) -> Literal["default", "full"]:
    if value == "default":
        return "default"
    if value == "full":
        return "full"
    raise invalid(f"vision_feature_select_strategy is {value!r}; expected 'default' or 'full'")
