"""Qwen3-VL, dense: Qwen2-VL's images, features of inner layers of the tower added further down.

TensorRT-LLM has no engines of it: its vision builder knows `qwen2_vl` and no later one. Its PyTorch
backend serves it since 1.2 (pull request 9060, "support Qwen3-VL dense model in pytorch backend").
"""

from dataclasses import replace

from mm_api.checkpoint.text import beside_tower, decoder_of
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.families import qwen2_vl
from mm_api.families.family import Family, PyTorchServing
from mm_api.families.image_layouts.grid import GRID
from mm_api.families.prompt import PromptStyle, chatml
from mm_api.families.text_block import LLAMA

TOWER = {
    "hidden_size": 1152,
    "depth": 27,
    "num_heads": 16,
    "intermediate_size": 4304,
    "patch_size": 16,
    "spatial_merge_size": 2,
}
"""Defaults of Qwen3VLVisionConfig."""

STACKED = [8, 16, 24]
"""deepstack_visual_indexes of Qwen3VLVisionConfig."""

SECTIONS = 3
"""Numbers of mrope_section: frequencies of time, rows and columns."""


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a dense Qwen3-VL checkpoint; CheckpointError: another language model."""
    values = section(config, "vision_config") or {}
    size = Sizes(values, TOWER, "vision_config")
    text = decoder_of(config, ("qwen3_vl_text",))
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    sections = rope.get("mrope_section", [24, 20, 20])
    if not isinstance(sections, list) or len(sections) != SECTIONS:
        raise invalid(
            f"mrope_section is {sections!r}; expected three numbers of frequencies, of time, rows"
            " and columns"
        )
    stacked = values.get("deepstack_visual_indexes", STACKED)
    if not isinstance(stacked, list) or not stacked:
        raise invalid(
            f"vision_config.deepstack_visual_indexes is {stacked!r}; expected a list of layers"
        )
    vision = qwen2_vl.vision_facts(size, processor, stacked_features=len(stacked))
    return beside_tower(config, text, vision)


WRAPPER = chatml("<|vision_start|><|image_pad|><|vision_end|>")


QWEN3_VL = Family(
    name="qwen3-vl",
    title="Qwen3-VL",
    architectures=("Qwen3VLForConditionalGeneration",),
    model_type="qwen3_vl",
    read=read,
    text=replace(LLAMA, head_norms=True, adapters=False),
    layout=replace(GRID, encoder="", video_features=None),
    on_reference=False,
    prompt=PromptStyle(WRAPPER, "<|image_pad|>", "<|video_pad|>", opening="<|im_start|>"),
    default_input_tokens=2048,  # as Qwen2-VL
    template_tokens=32,
    pytorch=PyTorchServing(images=True, since="1.2.0"),
    notes=(
        "an image is scaled to 5,184 patches, 1,296 tokens, at the most, whatever max_pixels says",
        "videos are not served",
    ),
)
