"""Pixtral: Mistral Small 3.1's images with a feature for each patch, in the class of LLaVA.

TensorRT-LLM builds a vision engine of it (tensorrt_llm/tools/multimodal_builder.py), which is not
planned here. Its PyTorch backend has no LlavaForConditionalGeneration, which these checkpoints
name: `PixtralForConditionalGeneration` of modeling_mistral.py (1.3.0rc; MODEL_ARCH_TO_MODULE of
tensorrt_llm/_torch/models/_arch_index.py) is of Mistral's own files, params.json and tekken.json.
"""

from dataclasses import replace

from mm_api.checkpoint.values import Dimensions, JsonObject, invalid, section
from mm_api.families.mistral3 import MISTRAL3, parts_of

DEFAULTS: JsonObject = {"vision_feature_layer": -2}
"""As in LlavaConfig, where Mistral3Config has another one."""


def has_tower(config: JsonObject) -> bool:
    return (section(config, "vision_config") or {}).get("model_type") == "pixtral"


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a Pixtral checkpoint; CheckpointError as Mistral Small 3.1's."""
    chosen = config.get("vision_feature_select_strategy", "default")
    if chosen != "full":
        raise invalid(
            f"vision_feature_select_strategy is {chosen!r}; expected 'full': this tower has no"
            " class token that could be left out"
        )
    return parts_of(DEFAULTS | config, processor, merged=1, model="Pixtral-12B")


PIXTRAL = replace(
    MISTRAL3,
    name="pixtral",
    title="Pixtral",
    architectures=("LlavaForConditionalGeneration",),
    model_type="llava",
    recognised=has_tower,
    read=read,
    pytorch=None,
    notes=(
        "an image of 1024 x 1024 pixels is 64 lines of 64 features and a token each: 4,160 tokens",
        "videos are not served",
    ),
)
