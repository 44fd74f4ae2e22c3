"""InternVL in OpenGVLab's layout: the same dimensions as in transformers', others by name."""

from collections.abc import Mapping
from typing import Any

import pytest

from mm_api.checkpoint import CheckpointError, Dimensions
from mm_api.families import FAMILIES
from mm_api.families.detection import resolve
from real_models import real_models

FAMILY = FAMILIES["internvl"]
IMAGE_TOKEN = 151667
TOKENIZER = {
    "tokenizer.json": {"added_tokens": [{"id": IMAGE_TOKEN, "content": "<IMG_CONTEXT>"}]},
    "tokenizer_config.json": {},
    "added_tokens.json": {},
}
FILES: Mapping[str, Any] = next(one.files for one in real_models() if one.family == FAMILY.name)
"""Of InternVL3-8B-hf."""

TEXT = FILES["config.json"]["text_config"]
OWN: Mapping[str, Any] = {
    "model_type": "internvl_chat",
    "architectures": ["InternVLChatModel"],
    "auto_map": {"AutoModel": "modeling_internvl_chat.InternVLChatModel"},
    "llm_config": TEXT | {"attn_implementation": "flash_attention_2"},
    "vision_config": {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "image_size": 448,
        "patch_size": 14,
        "norm_type": "layer_norm",
        "qk_normalization": False,
        "qkv_bias": True,
    },
    "downsample_ratio": 0.5,
    "dynamic_image_size": True,
    "force_image_size": 448,
    "max_dynamic_patch": 12,
    "min_dynamic_patch": 1,
    "ps_version": "v2",
    "select_layer": -1,
    "template": "internvl2_5",
    "torch_dtype": "bfloat16",
    "use_thumbnail": True,
}
"""config.json of InternVL3-8B, as its values are in transformers' layout."""


def read(
    changes: Mapping[str, Any] | None = None, tokenizer: Mapping[str, Any] = TOKENIZER
) -> Dimensions:
    config = {**OWN, **(changes or {})}
    assert resolve(config, None) == FAMILY.name
    return FAMILY.dimensions(config, {}, tokenizer)


def test_dimensions_are_those_of_the_other_layout() -> None:
    """Text, tower, tiles and the token of images."""
    files = FILES["config.json"], FILES.get("preprocessor_config.json", {})

    assert read() == FAMILY.read(*files)


@pytest.mark.parametrize(
    "tokenizer",
    [
        {"tokenizer_config.json": {"added_tokens_decoder": {"7": {"content": "<IMG_CONTEXT>"}}}},
        {"added_tokens.json": {"<IMG_CONTEXT>": 7}},
    ],
    ids=lambda one: next(iter(one)),
)
def test_the_token_of_images_is_found(tokenizer: Mapping[str, Any]) -> None:
    """In whichever file of the tokenizer has it."""
    assert read(tokenizer=tokenizer).image_token_id == 7


def test_images_without_tiles() -> None:
    """`dynamic_image_size` false: one tile."""
    vision = read({"dynamic_image_size": False}).vision

    assert vision is not None
    assert vision.max_tiles == 1


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
def test_language_models_that_are_read(kind: str) -> None:
    """Those of InternVL 2, 2.5, 3 and 3.5 that transformers has classes of."""
    assert read({"llm_config": TEXT | {"model_type": kind}}).text.layers == 28


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"llm_config": {"model_type": "internlm2"}}, ["no class of InternLM2", "Nearest"]),
        ({"llm_config": {"model_type": "phi3"}}, ["'phi3'", "qwen2, qwen3, llama", "Nearest"]),
        ({"llm_config": {"model_type": "qwen3_moe"}}, ["'qwen3_moe'", "qwen2, qwen3, llama"]),
        ({"ps_version": "v1"}, ["ps_version is 'v1'"]),
        ({"select_layer": -4}, ["select_layer is -4"]),
        ({"use_thumbnail": False}, ["use_thumbnail is False"]),
        ({"downsample_ratio": 0.25}, ["downsample_ratio is 0.25"]),
        ({"force_image_size": 224}, ["force_image_size is 224"]),
        ({"template": "internvl_zh"}, ["template is 'internvl_zh'", "internvl2_5"]),
        ({"min_dynamic_patch": 13}, ["min_dynamic_patch is 13"]),
        ({"max_dynamic_patch": "many"}, ["max_dynamic_patch is 'many'"]),
        ({"vision_config": {"norm_type": "none"}}, ["norm_type is 'none'"]),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, dict) else "",
)
def test_others_are_refused(changes: Mapping[str, Any], words: list[str]) -> None:
    """The key, its value and what is expected."""
    with pytest.raises(CheckpointError) as refused:
        read(changes)

    assert [one for one in words if one not in str(refused.value)] == []


def test_a_tokenizer_without_the_token_of_images() -> None:
    """No file has it: the tokenizer is another model's."""
    with pytest.raises(CheckpointError, match="has the token <IMG_CONTEXT>"):
        read(tokenizer={"tokenizer.json": {}, "tokenizer_config.json": {}})


@pytest.mark.parametrize(("name", "breaks"), [("internvl2_5", 1), ("Hermes-2", 0)])
def test_turns_end_as_the_template_says(name: str, breaks: int) -> None:
    """InternVL 2 writes no line break behind a turn."""
    layout = FAMILY.checkpoint.other_layout
    assert layout is not None

    assert layout.chat({"template": name}).count(r"<|im_end|>\n") == breaks
