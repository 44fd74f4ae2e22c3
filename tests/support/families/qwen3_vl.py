"""Qwen3-VL for tests: a tower of which both layers give features to the language model."""

import json
from pathlib import Path

from support.families.case import Case
from support.families.checkpoints import (
    HEADS,
    HIDDEN,
    LAYERS,
    PATCH,
    SIDE,
    TEXT,
    save,
    write_processor,
)
from support.families.qwen2_vl import CASE as QWEN2_VL
from support.families.qwen2_vl import TOKENS, video
from support.families.words import id_of, name_extras, write_tokenizer

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
    """Write a checkpoint into a folder."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration  # noqa: PLC0415

    vision = {
        "depth": LAYERS,
        "hidden_size": HIDDEN,
        "num_heads": HEADS,
        "intermediate_size": 48,
        "out_hidden_size": HIDDEN,
        "patch_size": PATCH,
        "num_position_embeddings": 25,
        "deepstack_visual_indexes": [0, 1],
    }
    text = TEXT | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}, "head_dim": 16}
    text["rope_parameters"] |= {"mrope_section": [4, 2, 2], "mrope_interleaved": True}
    config = Qwen3VLConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=id_of("<|image_pad|>", TOKENS),
        video_token_id=id_of("<|video_pad|>", TOKENS),
        vision_start_token_id=id_of("<|vision_start|>", TOKENS),
        vision_end_token_id=id_of("<|vision_end|>", TOKENS),
        tie_word_embeddings=False,
    )
    save(Qwen3VLForConditionalGeneration(config), folder)
    write_tokenizer(folder, TOKENS)
    name_extras(folder, "0123456789")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write_processor(
        folder,
        image_processor_type="Qwen2VLImageProcessor",
        size={"shortest_edge": 4 * SIDE * SIDE, "longest_edge": 16 * SIDE * SIDE},
        patch_size=PATCH,
        temporal_patch_size=2,
        merge_size=2,
    )
    videos = {"size": {"shortest_edge": 4 * SIDE * SIDE, "longest_edge": 64 * SIDE * SIDE}}
    (folder / "video_preprocessor_config.json").write_text(json.dumps(videos))


CASE = Case(
    write,
    prompt="<|im_start|>user\n{images}what is in the image ?<|im_end|>\n<|im_start|>assistant\n",
    mark=QWEN2_VL.mark,
    video_mark=QWEN2_VL.video_mark,
    video=video,
    image_processor=QWEN2_VL.image_processor,
    vision_config="transformers.models.qwen3_vl.configuration_qwen3_vl:Qwen3VLVisionConfig",
    text_kind="qwen3_vl_text",
    more=QWEN2_VL.more,
    refused_configurations=(
        ({"text_config": {"model_type": "qwen3_vl_moe_text"}}, "expected qwen3_vl_text"),
        ({"text_config": {"rope_scaling": {"mrope_section": [32]}}}, "mrope_section is [32]"),
        ({"vision_config": {"deepstack_visual_indexes": []}}, "deepstack_visual_indexes is []"),
    ),
)
