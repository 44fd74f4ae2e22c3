"""BLIP-2 with T5: query tokens are rows of the encoder's prompt table (#commands, #encoders)."""

from dataclasses import replace

from mm_api.families.blip2_opt import features_per_image
from mm_api.families.family import Recipe
from mm_api.families.flan_t5 import FLAN_T5
from mm_api.families.t5 import T5_FLAGS

BLIP2_T5 = replace(
    FLAN_T5,
    name="blip2-t5",
    title="BLIP-2 T5",
    architectures=("Blip2ForConditionalGeneration",),
    recipe=Recipe(
        converter="enc_dec",
        convert_flags=("--model_type", "blip2"),
        build_flags=T5_FLAGS,
        encoder_flags=T5_FLAGS,
        vision_type="blip2",
    ),
    features_per_image=features_per_image,
    default_encoder_tokens=924,  # upstream's documented encoder
    default_output_tokens=100,
    max_images=1,
    max_images_reason="upstream's wrapper puts one picture in front of the text",
    notes=(
        "engines are built and not served: Triton's preprocessing model knows BLIP-2 with OPT only",
        "heads must be a multiple of the tensor parallel size",
    ),
)
