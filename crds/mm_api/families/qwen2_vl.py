"""Qwen2-VL: an image keeps its shape, 28 x 28 pixels become a feature (#features)."""

from dataclasses import replace
from math import isqrt

from mm_api.checkpoint.text import beside_tower
from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.documents.model_facts import VisionFacts
from mm_api.families.family import QWEN_ENGINES, Family, PyTorchServing
from mm_api.families.image_layouts.grid import GRID, MAX_HW_DIMS
from mm_api.families.prompt import PromptStyle, chatml
from mm_api.families.text_block import QWEN2

MIN_HW_DIMS = 128
"""Fewer patches (below about 160 x 160 pixels) fall out of the vision builder's default profile."""

TOWER = {"embed_dim": 1280, "depth": 32, "num_heads": 16, "patch_size": 14}
PIXELS = (56 * 56, 28 * 28 * 1280)
"""min_pixels and max_pixels of Qwen2VLImageProcessor, for checkpoints that do not name them."""


def pixel_bounds(processor: JsonObject) -> tuple[int, int]:
    """Return the fewest and the most pixels of an image, as Qwen2VLImageProcessor reads its file.

    `min_pixels` and `max_pixels` come before `size`, which transformers 5 writes instead of them.

    Raises:
        CheckpointError: a bound is no positive integer, or the first is above the second.
    """
    sides = Sizes(section(processor, "size") or {}, {}, "preprocessor_config.json size")
    own = Sizes(processor, {}, "preprocessor_config.json")
    least = own("min_pixels", sides("shortest_edge", PIXELS[0]))
    most = own("max_pixels", sides("longest_edge", PIXELS[1]))
    if least > most:
        raise invalid(
            f"preprocessor_config.json allows images of {least} pixels (min_pixels or"
            f" size.shortest_edge) to {most} (max_pixels or size.longest_edge); expected the first"
            " to be the smaller one"
        )
    return least, most


def vision_facts(
    size: Sizes, processor: JsonObject, inside: int | None = None, **own: int
) -> VisionFacts:
    """Return the vision half of a family whose images keep their size, within bounds."""
    merge = size("spatial_merge_size", 2)
    least, most = pixel_bounds(processor)
    unit = size("patch_size") * merge
    return VisionFacts(
        hidden_size=size("hidden_size" if inside is None else "embed_dim"),
        intermediate_size=size("intermediate_size") if inside is None else inside,
        layers=size("depth"),
        image_size=max(unit, isqrt(most) // unit * unit),
        patch_size=size("patch_size"),
        features_per_image=max(1, most // unit**2),
        attention_heads=size("num_heads"),
        merge_size=merge,
        min_pixels=least,
        max_pixels=most,
        **own,
    )


def read(config: JsonObject, processor: JsonObject) -> Dimensions:
    """Return the parts of a Qwen2-VL checkpoint: images keep their size, within bounds."""
    values = section(config, "vision_config") or {}
    size = Sizes(values, TOWER, "vision_config")
    text = section(config, "text_config") or config
    inside = int(size("embed_dim") * float(values.get("mlp_ratio", 4)))
    vision = vision_facts(size, processor, inside)
    return beside_tower(config, text, vision)


WRAPPER = chatml(
    "<|vision_start|><|image_pad|><|vision_end|>",
    "<|vision_start|><|video_pad|><|vision_end|>",
    system="<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n",
)


QWEN2_VL = Family(
    name="qwen2-vl",
    title="Qwen2-VL",
    architectures=("Qwen2VLForConditionalGeneration",),
    model_type="qwen2_vl",
    read=read,
    dtypes=("float16", "bfloat16"),
    dtype_reason="upstream's engines are float16, whatever the checkpoint is stored in",
    text=QWEN2,
    trtllm=replace(
        QWEN_ENGINES,
        build_flags=(("gemm_plugin", "{dtype}"), ("gpt_attention_plugin", "{dtype}")),
        vision_type="qwen2_vl",
        vision_flags=("--min_hw_dims", str(MIN_HW_DIMS), "--max_hw_dims", str(MAX_HW_DIMS)),
        vision_packages=("qwen-vl-utils",),  # multimodal_builder.py; not in requirements.txt
        since="0.19.0",  # the first template that was read with inputs for rotations
        max_images=1,
        max_images_reason="upstream's models serve one image per request",
        videos=False,
        notes=(
            "each request keeps rotary tables for the entire context on the GPU: 16 MiB for 7B",
            (
                "all images of a batch must give equal numbers of tokens: the gateway makes them "
                "one size"
            ),
            "the vision builder downloads a demo image: build nodes without internet fail",
        ),
    ),
    layout=GRID,
    fused_passes=True,
    prompt=PromptStyle(WRAPPER, "<|image_pad|>", "<|video_pad|>", opening="<|im_start|>"),
    default_input_tokens=2048,  # upstream's documented engine: input 2048, sequence 3072
    template_tokens=32,
    pytorch=PyTorchServing(
        images=True,
        most_images=64,  # Qwen2VLInputProcessorBase: the class of Qwen2.5-VL, too
    ),
)
