"""Qwen3-VL for tests: a tower of which both layers give features to the language model."""

import json
from pathlib import Path

from support.families.case import Case
from support.families.checkpoints import HIDDEN, SIDE, head_size
from support.families.qwen2_vl import CASE as QWEN2_VL
from support.families.qwen2_vl import write_images, write_qwen
from support.families.words import name_extras

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content %}"
    "<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif content['type'] == 'video' or 'video' in content %}"
    "<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""That of Qwen3-VL's checkpoints, without tools."""


def write(folder: Path) -> None:
    inner = {"num_position_embeddings": 25, "deepstack_visual_indexes": [0, 1]}
    tower = {"intermediate_size": 48, "out_hidden_size": HIDDEN, **inner}
    size = head_size()
    sections = [size // 4, size // 8, size // 8]
    rotated = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": sections}
    text = {"head_dim": size, "rope_parameters": rotated | {"mrope_interleaved": True}}
    write_qwen(folder, "Qwen3VL", tower, text)
    name_extras(folder, "0123456789")
    bounds = {"shortest_edge": 4 * SIDE * SIDE, "longest_edge": 16 * SIDE * SIDE}
    write_images(folder, size=bounds)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    videos = {"size": {"shortest_edge": 4 * SIDE * SIDE, "longest_edge": 64 * SIDE * SIDE}}
    (folder / "video_preprocessor_config.json").write_text(json.dumps(videos))


CASE = Case(
    write,
    prompt="<|im_start|>user\n{images}what is in the image ?<|im_end|>\n<|im_start|>assistant\n",
    mark=QWEN2_VL.mark,
    image_processor=QWEN2_VL.image_processor,
    vision_config="transformers.models.qwen3_vl.configuration_qwen3_vl:Qwen3VLVisionConfig",
    text_kind="qwen3_vl_text",
    refused_configurations=(
        ({"text_config": {"model_type": "qwen3_vl_moe_text"}}, "expected qwen3_vl_text"),
        ({"text_config": {"rope_scaling": {"mrope_section": [32]}}}, "mrope_section is [32]"),
        ({"vision_config": {"deepstack_visual_indexes": []}}, "deepstack_visual_indexes is []"),
    ),
)
