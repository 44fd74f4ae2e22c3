"""LLaVA 1.5: a CLIP tower whose every patch becomes one row of the prompt table (#features)."""

from dataclasses import replace
from typing import Any, Literal

from mm_api.checkpoint.text import text_facts
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.documents.model_facts import VisionFacts
from mm_api.families.family import LLAMA_ENGINES, Family
from mm_api.families.image_layouts.layout import SQUARE
from mm_api.families.prompt import PromptStyle


def has_square_images(config: JsonObject) -> bool:
    """Return whether the tower is not Pixtral's, whose checkpoints have the same class."""
    return (section(config, "vision_config") or {}).get("model_type") != "pixtral"


def features_per_image(vision: VisionFacts) -> int:
    """Return (side / patch)^2, and one more when the class token is kept ("full")."""
    patches = (vision.image_size // vision.patch_size) ** 2
    return patches + (vision.feature_select == "full")


VISION_DEFAULTS = {"hidden_size": 768, "num_hidden_layers": 12, "image_size": 224, "patch_size": 32}
"""CLIPVisionConfig, for keys that a given vision_config leaves out."""

TOWER_DEFAULTS = {"hidden_size": 1024, "num_hidden_layers": 24, "image_size": 336, "patch_size": 14}
"""LlavaConfig's own tower (CLIP ViT-L/14-336), when there is no vision_config at all."""

FEATURE_LAYER_DEFAULT = -2

IMAGE_TOKEN_DEFAULT = 32000


def read(config: JsonObject, _: JsonObject) -> Dimensions:
    """Return text model, tower and id of the image token; CheckpointError: `ConfigInvalid`."""
    if "mm_vision_tower" in config:
        raise invalid(
            "config.json has mm_vision_tower: this is LLaVA's original layout, which loads"
            " without an"
            " error and without a vision tower. Use the converted checkpoint (llava-hf/...-hf)."
        )
    vision = _vision(config)
    key = "image_token_id" if "image_token_id" in config else "image_token_index"
    image_token = Sizes(config, {})(key, IMAGE_TOKEN_DEFAULT, smallest=0)
    text = text_facts(section(config, "text_config") or {})
    return Dimensions(text, vision, image_token_id=image_token)


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


WRAPPER = (
    "{% for message in messages %}USER:\n"
    "{% for part in message['content'] if part['type'] == 'image' %}<image>\n{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
    " ASSISTANT:{% endfor %}"
)
"""LLaVA-1.5's prompt as upstream's preprocessing writes it; used when there is no template."""

PROMPT = PromptStyle(WRAPPER)


LLAVA = Family(
    name="llava",
    title="LLaVA 1.5",
    architectures=("LlavaForConditionalGeneration",),
    model_type="llava",
    recognised=has_square_images,
    read=read,
    dtypes=("float16", "bfloat16", "float32"),
    dtype_reason="upstream's engines are float16",
    trtllm=replace(
        LLAMA_ENGINES,
        vision_type="llava",
        keeps_class_token=False,
        notes=(
            (
                "upstream's vision wrapper always drops the class token: select strategy 'full' is "
                "refused"
            ),
        ),
    ),
    fused_passes=True,
    prompt=PROMPT,
    layout=replace(SQUARE, features_per_image=features_per_image),
    default_input_tokens=2048,  # upstream's documented engine: input 2048, sequence 2560
    default_output_tokens=512,
    vllm_features=True,
    template_tokens=16,  # "USER:\n", "\n" and " ASSISTANT:" with the start token
    notes=("LLaVA's own layout (mm_vision_tower) is refused: it loads without a vision tower",),
)
