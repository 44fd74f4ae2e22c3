"""Qwen2.5-VL: Qwen2-VL's images, a tower whose patches see their window, videos that have a clock.

TensorRT-LLM has no engines of it: its vision builder knows `qwen2_vl` and no later one
(tensorrt_llm/tools/multimodal_builder.py). Its PyTorch backend serves it: support matrix of 0.19
(docs/source/reference/support-matrix.md) and all later ones.
"""

from mm_api.checkpoint.text import beside_tower
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.families import qwen2_vl
from mm_api.families.family import Family, PyTorchServing
from mm_api.families.image_layouts.grid import GRID
from mm_api.families.prompt import PromptStyle
from mm_api.families.text_block import QWEN2

TOWER = {
    "hidden_size": 3584,
    "depth": 32,
    "num_heads": 16,
    "intermediate_size": 3420,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "tokens_per_second": 4,
}
"""Defaults of Qwen2_5_VLVisionConfig."""


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a Qwen2.5-VL checkpoint; CheckpointError: its attention has a window."""
    size = Sizes(section(config, "vision_config") or {}, TOWER, "vision_config")
    text = section(config, "text_config") or config
    if text.get("use_sliding_window"):
        raise invalid(
            "use_sliding_window is true; expected false: the answer must attend to all of an image"
            " and its question"
        )
    vision = qwen2_vl.vision_facts(size, processor, tokens_per_second=size("tokens_per_second"))
    return beside_tower(config, text, vision)


QWEN2_5_VL = Family(
    name="qwen2-5-vl",
    title="Qwen2.5-VL",
    architectures=("Qwen2_5_VLForConditionalGeneration",),
    model_type="qwen2_5_vl",
    read=read,
    text=QWEN2,
    layout=GRID,
    prompt=PromptStyle(qwen2_vl.WRAPPER, "<|image_pad|>", "<|video_pad|>", opening="<|im_start|>"),
    default_input_tokens=2048,  # as Qwen2-VL
    vllm_features=True,
    vllm_videos_since="0.31.0",
    template_tokens=32,
    pytorch=PyTorchServing(images=True),
    notes=(
        "an image is scaled to 5,184 patches, 1,296 tokens, at the most, whatever max_pixels says",
        "a video's frames are as far apart as video_seconds_input says, else half a second",
    ),
)
