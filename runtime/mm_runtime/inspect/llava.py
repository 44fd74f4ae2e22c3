"""Dimensions of a LLaVA checkpoint, with the defaults that a missing key stands for.

The real llava-1.5-7b has no hidden_size in its text_config at all: a key that is left out means the
default of the configuration class (transformers' LlamaConfig, CLIPVisionConfig, LlavaConfig).
"""

from dataclasses import dataclass
from typing import Any, Literal

from mm_api.documents.model_facts import InspectReason, TextFacts, VisionFacts
from mm_runtime.errors import InspectRefusedError
from mm_runtime.inspect.small_files import JsonObject

TEXT_DEFAULTS: dict[str, dict[str, int]] = {
    "llama": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
        "max_position_embeddings": 2048,
    },
    "mistral": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
        "max_position_embeddings": 131072,
    },
}
"""Defaults of the configuration classes of transformers 5.23, by `text_config.model_type`. A text
model that is not here must name every key itself."""

VISION_DEFAULTS = {"hidden_size": 768, "num_hidden_layers": 12, "image_size": 224, "patch_size": 32}
"""CLIPVisionConfig, for keys that a given vision_config leaves out."""

TOWER_DEFAULTS = {"hidden_size": 1024, "num_hidden_layers": 24, "image_size": 336, "patch_size": 14}
"""LlavaConfig's own tower (CLIP ViT-L/14-336), when there is no vision_config at all."""

FEATURE_LAYER_DEFAULT = -2
IMAGE_TOKEN_DEFAULT = 32000
LARGEST = 2**31 - 1
"""Sizes above this are no sizes: Triton's shapes and TensorRT-LLM's limits are 32-bit."""


@dataclass(frozen=True, slots=True)
class LlavaDimensions:
    """What config.json says about a LLaVA model."""

    text: TextFacts
    vision: VisionFacts
    image_token_id: int


def read(config: JsonObject) -> LlavaDimensions:
    """Return the dimensions of a LLaVA config.json.

    Raises:
        InspectRefusedError: `ConfigInvalid`: a value of a wrong type or range, or the original
            layout of LLaVA (liuhaotian), which has no vision_config.
    """
    if "mm_vision_tower" in config:
        raise InspectRefusedError(
            InspectReason.CONFIG_INVALID,
            "config.json has mm_vision_tower: this is LLaVA's original layout, which loads"
            " without an"
            " error and without a vision tower. Use the converted checkpoint (llava-hf/...-hf).",
        )
    vision = _vision(config)
    return LlavaDimensions(
        text=_text(_section(config, "text_config") or {}),
        vision=vision,
        image_token_id=_integer(
            config,
            "image_token_id" if "image_token_id" in config else "image_token_index",
            IMAGE_TOKEN_DEFAULT,
            smallest=0,
        ),
    )


def _text(section: JsonObject) -> TextFacts:
    kind = str(section.get("model_type", "llama"))
    defaults = TEXT_DEFAULTS.get(kind, {})

    def size(key: str) -> int:
        return _integer(section, key, defaults.get(key), where="text_config")

    hidden, heads = size("hidden_size"), size("num_attention_heads")
    key_value_heads = _integer(
        section,
        "num_key_value_heads",
        defaults.get("num_key_value_heads", heads),
        where="text_config",
    )
    if section.get("head_dim") is None and hidden % heads:
        raise _invalid(
            f"text_config.hidden_size {hidden} is not a multiple of num_attention_heads {heads}"
        )
    return TextFacts(
        hidden_size=hidden,
        intermediate_size=size("intermediate_size"),
        layers=size("num_hidden_layers"),
        attention_heads=heads,
        key_value_heads=key_value_heads,
        head_size=_integer(section, "head_dim", hidden // heads, where="text_config"),
        vocabulary_size=size("vocab_size"),
        max_position_embeddings=size("max_position_embeddings"),
    )


def _vision(config: JsonObject) -> VisionFacts:
    section = _section(config, "vision_config")
    defaults = TOWER_DEFAULTS if section is None else VISION_DEFAULTS
    values = section or {}

    def size(key: str) -> int:
        return _integer(values, key, defaults[key], where="vision_config")

    image, patch, layers = size("image_size"), size("patch_size"), size("num_hidden_layers")
    if image < patch:
        raise _invalid(f"vision_config.image_size {image} is smaller than patch_size {patch}")
    layer = config.get("vision_feature_layer", FEATURE_LAYER_DEFAULT)
    # hidden_states holds the embeddings and every layer's output: layers + 1 entries.
    if isinstance(layer, bool) or not isinstance(layer, int) or not -layers - 1 <= layer <= layers:
        raise _invalid(
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
    raise _invalid(f"vision_feature_select_strategy is {value!r}; expected 'default' or 'full'")


def _section(config: JsonObject, key: str) -> JsonObject | None:
    value = config.get(key)
    if value is None or isinstance(value, dict):
        return value
    raise _invalid(f"{key} is a {type(value).__name__}; expected an object")


def _integer(
    section: JsonObject, key: str, default: int | None, *, smallest: int = 1, where: str = ""
) -> int:
    value: object = section.get(key)
    name = f"{where}.{key}" if where else key
    if value is None:
        if default is None:
            raise _invalid(
                f"{name} is missing, and text models of the type"
                f" {section.get('model_type')!r} have no default here"
            )
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= LARGEST:
        raise _invalid(f"{name} is {value!r}; expected a whole number from {smallest}")
    return value


def _invalid(what: str) -> InspectRefusedError:
    return InspectRefusedError(
        InspectReason.CONFIG_INVALID, f"config.json: {what}. Correct the checkpoint."
    )
