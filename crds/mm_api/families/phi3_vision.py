"""Phi-3-vision and Phi-3.5-vision: HD tiles whose lines end with a vector, a separator and a view.

Checkpoints have Python code of their own and transformers has no class of it; what they describe is
composed of classes that transformers has (`phi3_v`). TensorRT-LLM: multimodal_builder.py writes no
engine of it but config.json, Triton's preprocessing model does not know it, and none of
@register_auto_model in the tensorrt_llm/_torch/models that were read is Phi3VForCausalLM.
"""

from dataclasses import replace

from mm_api.checkpoint.dimensions import Dimensions
from mm_api.checkpoint.text import text_facts
from mm_api.checkpoint.values import JsonObject, invalid, section
from mm_api.checkpoint.vision import encoder_parameters
from mm_api.documents.model_facts import VisionFacts
from mm_api.families.backend_parts import (
    BYTES_TENSORS,
    ENSEMBLE,
    NO_ENGINES,
    ReferenceFamily,
    Serving,
)
from mm_api.families.checkpoint_files import CheckpointFiles, Decoder
from mm_api.families.family import Family
from mm_api.families.image_layouts.hd import HD
from mm_api.families.phi3_v import PHI3_V, TEXT, check, crops_of, tower_of
from mm_api.families.prompt import IMAGES, PromptStyle
from mm_api.families.prompt import TEXT as QUESTION
from mm_api.families.text_block import LLAMA


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a Phi-3-vision checkpoint.

    Raises:
        CheckpointError: a size of a wrong type or out of range, or a variant of tower, projection
            or rotations that is not computed here.
    """
    check(config)
    tower, tokens = tower_of(config)
    layers = tower["num_hidden_layers"]
    layer = (section(config, "img_processor") or {}).get("layer_idx", -2)
    if isinstance(layer, bool) or not isinstance(layer, int) or not -layers - 1 <= layer <= layers:
        raise invalid(
            f"img_processor.layer_idx is {layer!r}; expected one integer from {-layers - 1} to"
            f" {layers}"
        )
    vision = VisionFacts(
        hidden_size=tower["hidden_size"],
        layers=layers,
        image_size=tower["image_size"],
        patch_size=tower["patch_size"],
        features_per_image=tokens,  # of one tile, as InternVL's
        feature_layer=layer,
        feature_select="default",
        intermediate_size=tower["intermediate_size"],
        attention_heads=tower["num_attention_heads"],
        merge_size=2,
        max_tiles=crops_of(processor) + 1,
    )
    tied = bool(config.get("tie_word_embeddings", False))
    return Dimensions(text_facts(TEXT | config, tied_embeddings=tied, where=""), vision)


def vision_parameters(vision: VisionFacts, hidden: int) -> int:
    """Return the weights of CLIP's tower, of the projection over 2 x 2 patches, and of two ends."""
    width = vision.hidden_size
    positions = (vision.image_size // vision.patch_size) ** 2 + 1
    tower = encoder_parameters(vision) + (3 * vision.patch_size**2 + positions + 5) * width
    projection = 4 * width * hidden + hidden + hidden * hidden + hidden
    return tower + projection + 2 * 4 * width


WRAPPER = (
    "<|user|>\n"
    + IMAGES
    + "<|image|>\n{% endfor %}"
    + QUESTION
    + "{% endfor %}<|end|>\n<|assistant|>\n"
)


PHI3_VISION = Family(
    name="phi3-vision",
    title="Phi-3-vision",
    architectures=("Phi3VForCausalLM",),
    model_type="phi3_v",
    checkpoint=CheckpointFiles(
        other_layout=PHI3_V,
        decoder=Decoder.COMPLETE,
        loaded_as="Phi3ForCausalLM",
        vision_parameters=lambda vision, text: vision_parameters(vision, text.hidden_size),
    ),
    read=read,
    text=replace(LLAMA, adapters=False),
    trtllm=replace(NO_ENGINES, pipeline_parallel=False),
    layout=HD,
    reference=ReferenceFamily(long_rotation=True),
    prompt=PromptStyle(
        WRAPPER,
        "<|image|>",
        numbered="<|image_{number}|>",
        splits=True,
        parts_begin=True,
        opening="<|",
    ),
    serving=Serving(
        ENSEMBLE, BYTES_TENSORS, "<|user|>\\n<|image|>\\n{text}<|end|>\\n<|assistant|>\\n"
    ),
    default_input_tokens=3072,  # with the answer 4,096 positions: rotated by short_factor
    notes=(
        "images are scaled up to num_crops tiles of 144 tokens, and a view of all of it",
        "num_crops of preprocessor_config.json is the number of tiles at the most: 4 or 16",
        "requests that may become longer than 4,096 tokens are rotated by long_factor",
    ),
)
