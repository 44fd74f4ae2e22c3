"""BLIP-2 with T5: query tokens are rows of the encoder's prompt table (#commands, #encoders)."""

from dataclasses import replace

from mm_api.checkpoint.dimensions import Dimensions
from mm_api.checkpoint.values import JsonObject, section
from mm_api.checkpoint.vision import image_token
from mm_api.families import t5
from mm_api.families.backend_parts import Unserved
from mm_api.families.blip2_opt import BLIP2_IMAGES, blip2_tower, text_type
from mm_api.families.flan_t5 import FLAN_T5


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a BLIP-2 checkpoint with T5."""
    return replace(
        t5.read(section(config, "text_config") or {}, processor),
        vision=blip2_tower(config),
        image_token_id=image_token(config),
    )


BLIP2_T5 = replace(
    FLAN_T5,
    name="blip2-t5",
    title="BLIP-2 T5",
    architectures=("Blip2ForConditionalGeneration",),
    model_type="blip-2",
    recognised=lambda config: text_type(config) == "t5",
    read=read,
    trtllm=replace(
        FLAN_T5.trtllm,
        converter="enc_dec",
        convert_flags=("--model_type", "blip2"),
        build_flags=t5.T5_FLAGS,
        encoder_flags=t5.T5_FLAGS,
        vision_type="blip2",
        built_vision_type="blip2-t5",
        max_images=1,
        max_images_reason="upstream's wrapper puts one image in front of the text",
    ),
    layout=BLIP2_IMAGES,
    default_encoder_tokens=924,  # upstream's documented encoder
    default_output_tokens=100,
    unserved=Unserved(
        "BLIP-2 with T5",
        "nothing serves BLIP-2 with T5, so no GPU is taken for its engines: build them by hand "
        "with the commands of `mmctl plan -o commands`, or use a BLIP-2 with OPT",
    ),
    notes=(
        "engines are built and not served: Triton's preprocessing model knows BLIP-2 with OPT only",
        "heads must be a multiple of the tensor parallel size",
    ),
)
