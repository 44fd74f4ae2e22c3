"""SmolVLM 2: Idefics3 with another name of its class."""

from dataclasses import replace

from mm_api.families.idefics3 import IDEFICS3, WRAPPER
from mm_api.families.prompt import PromptStyle

SMOLVLM = replace(
    IDEFICS3,
    name="smolvlm",
    title="SmolVLM 2",
    architectures=("SmolVLMForConditionalGeneration",),
    model_type="smolvlm",
    prompt=PromptStyle("<|im_start|>" + WRAPPER, opening="<|im_start|>"),
    notes=(
        "small images are scaled up, too: even 512 x 512 pixels are 16 tiles and a view of them",
        "videos are not served",
    ),
)
