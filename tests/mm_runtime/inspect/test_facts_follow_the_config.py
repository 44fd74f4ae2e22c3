"""Dimensions, sizes and dtypes come out as the checkpoint's own classes would read them."""

from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.model_facts import ModelFacts
from mm_api.families.detection import detect
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.cases import cases
from support.hollow_checkpoint import LLAVA_CONFIG, LLAVA_PARAMETERS, shard, write_checkpoint
from support.models import llava_7b_facts

# config.json of llava-hf/llava-1.5-7b-hf, the parts that count: text_config has no sizes at all.
LLAVA_7B: dict[str, Any] = {
    "architectures": ["LlavaForConditionalGeneration"],
    "image_token_index": 32000,
    "model_type": "llava",
    "pad_token_id": 32001,
    "text_config": {
        "_name_or_path": "lmsys/vicuna-7b-v1.5",
        "max_position_embeddings": 4096,
        "model_type": "llama",
        "torch_dtype": "float16",
        "vocab_size": 32064,
    },
    "torch_dtype": "float16",
    "vision_config": {
        "hidden_size": 1024,
        "image_size": 336,
        "intermediate_size": 4096,
        "model_type": "clip_vision_model",
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "patch_size": 14,
    },
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
    "vocab_size": 32064,
}


def facts_of(source: Path, options: InspectOptions | None = None) -> ModelFacts:
    return inspect(source, options or InspectOptions())


def test_real_config_with_missing_keys(tmp_path: Path) -> None:
    """The real LLaVA-1.5-7B leaves sizes out: they are LlamaConfig's defaults."""
    facts = facts_of(write_checkpoint(tmp_path, LLAVA_7B))
    known = llava_7b_facts()
    assert (known.text, known.vision, 32000) == (facts.text, facts.vision, facts.image_token_id)


@cases(
    "changes features",
    {
        "class-token-dropped": ({}, 4),
        "class-token-kept": ({"vision_feature_select_strategy": "full"}, 5),
        "default-tower": ({"vision_config": None}, 576),
        "default-clip": ({"vision_config": {}}, 49),
    },
)
def test_features_per_image(tmp_path: Path, changes: dict[str, Any], features: int) -> None:
    facts = facts_of(write_checkpoint(tmp_path, {**LLAVA_CONFIG, **changes}))
    assert facts.vision is not None
    assert features == facts.vision.features_per_image


@pytest.mark.parametrize("sharded", [False, True], ids=["one-file", "shards"])
def test_weights_are_counted_from_headers(tmp_path: Path, *, sharded: bool) -> None:
    source = write_checkpoint(tmp_path)
    if sharded:
        shard(source)
    facts = facts_of(source)
    on_disk = sum(path.stat().st_size for path in source.glob("*.safetensors"))
    assert (LLAVA_PARAMETERS, on_disk, "float16") == (
        facts.parameters,
        facts.weight_bytes,
        facts.dtype,
    )


def test_allowed_pickle(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path, {**LLAVA_CONFIG, "torch_dtype": "bfloat16"})
    (source / "model.safetensors").rename(source / "pytorch_model.bin")
    facts = facts_of(source, InspectOptions(allow_pickle=True))
    size = (source / "pytorch_model.bin").stat().st_size
    expected = ("pickle", "bfloat16", size // 2)
    assert expected == (facts.weight_format, facts.dtype, facts.parameters)


def test_trusted_code_is_noted(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path, {**LLAVA_CONFIG, "auto_map": {"AutoModel": "x.Y"}})
    facts = facts_of(source, InspectOptions(trust_remote_code=True))
    assert facts.custom_code


@cases(
    "config family",
    {
        "llava": ({"model_type": "llava"}, "llava"),
        "vila": ({"llm_cfg": {}, "vision_tower_cfg": {}}, "vila"),
        "blip2-opt": ({"model_type": "blip-2"}, "blip2-opt"),
        "b2t5": ({"model_type": "blip-2", "text_config": {"model_type": "t5"}}, "generic"),
        "t5": ({"model_type": "t5"}, "t5"),
        "flan": ({"model_type": "t5", "feed_forward_proj": "gated-gelu"}, "flan-t5"),
        "byt5": ({"model_type": "t5", "tokenizer_class": "ByT5Tokenizer"}, "byt5"),
        "whisper": ({"model_type": "whisper"}, "whisper"),
        "nothing": ({}, None),
    },
)
def test_family_is_detected(config: dict[str, Any], family: str | None) -> None:
    """model_type alone does not name the family; the table of rules does."""
    assert family == detect(config)
