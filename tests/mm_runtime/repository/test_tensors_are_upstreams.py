"""Clients of tensorrtllm_backend find every tensor they know, spelt and shaped as they know it.

`upstream_v0.19.0.json` holds the tensors of that tag's templates, taken from its config.pbtxt
files.
"""

import json
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import pytest
from tritonclient.grpc.model_config_pb2 import DataType as TypeNames
from tritonclient.grpc.model_config_pb2 import ModelInput

from mm_runtime.repository.layout import MODELS
from mm_runtime.repository.model_config import ModelConfig
from mm_runtime.repository.values import values_of
from support.build_plans import serving_plan
from support.cases import cases
from support.documents import manifest
from support.native_engines import native_engine

UPSTREAM: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "upstream_v0.19.0.json").read_text()
)

TEMPLATE_TYPES = {
    "${logits_datatype}": "TYPE_FP32",
    "${encoder_input_features_data_type}": "TYPE_FP16",
}
"""Upstream's placeholders, filled as its guide fills them."""

NEWER_NAMES = {"min_tokens", "seed", "image_sizes_input"}
"""Inputs of newer templates: two that replace min_length and random_seed, and sizes of images
without their padding."""

OURS = {
    "ensemble": {"cache_salt", "lora_task_id", "video_seconds_input"},
    "tensorrt_llm_bls": {"cache_salt", "video_seconds_input"},
    "preprocessing": {
        *("IMAGE", "PICTURE_SIZES", "CACHE_SALT", "EMBEDDING_BIAS_IDS"),
        *("VIDEO_SECONDS", "SECOND_PER_GRID_TS", "PIXEL_BYTES"),
    },
    "multimodal_encoders": {"cache_salt", "second_per_grid_ts", "pixel_bytes"},
    "tensorrt_llm": {
        *("previous_ids", "is_last", "min_p", "cache_salt", "reused_tokens"),
        *("likeliest_log_probs", "likeliest_ids", "likeliest_values"),
    },
    "postprocessing": {"PREVIOUS_TOKENS", "IS_LAST"},
}
"""Tensors that upstream does not have: between our models, `cache_salt`, and `lora_task_id`, which
only its ensemble of language models takes."""

SEVERAL = {
    **dict.fromkeys(("image_url_input", "IMAGE_URL"), 1),
    **dict.fromkeys(("image_sizes", "IMAGE_SIZES"), 2),
    **dict.fromkeys(("image_grid_thw", "IMAGE_GRID_THW"), 3),
}
"""Values of one image upstream, of any number here (for URLs as in newer templates)."""

BATCHED = {"TOKENS_BATCH", "SEQUENCE_LENGTH"}
"""Inputs that may have different lengths in one batch here: responses of several streams. No client
sees a difference."""


def configs(dtype: str = "float16", backend: str = "Reference") -> dict[str, ModelConfig]:
    if backend == "Reference":
        engine = manifest(dtype=dtype)
        serving = serving_plan(engine.fingerprint)
    else:
        engine, serving = native_engine("llava", {"dtype": dtype})
    paths = (PurePath("/engine"), PurePath("/serving.json"), PurePath("/adapters"))
    values = values_of(engine, serving, *paths)
    return {module.NAME: module.config(values) for module in MODELS}


def as_upstream(tensor: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": tensor.name,
        "data_type": data_type(tensor),
        "dims": [SEVERAL[tensor.name]] if tensor.name in SEVERAL else list(tensor.dims),
    }
    if isinstance(tensor, ModelInput):
        found |= {"optional": True} if tensor.optional else {}
        ragged = tensor.allow_ragged_batch and tensor.name not in BATCHED
        found |= {"allow_ragged_batch": True} if ragged else {}
    found |= {"reshape": list(tensor.reshape.shape)} if tensor.HasField("reshape") else {}
    return found


def data_type(tensor: Any) -> str:
    return str(TypeNames.Name(tensor.data_type))


def wanted(tensor: dict[str, Any]) -> dict[str, Any]:
    kind = tensor["data_type"]
    return {**tensor, "data_type": TEMPLATE_TYPES.get(kind, kind)}


@pytest.mark.parametrize("model", sorted(UPSTREAM))
@pytest.mark.parametrize("side", ["input", "output"])
def test_tensors(model: str, side: str) -> None:
    expected = [wanted(tensor) for tensor in UPSTREAM[model][f"{side}s"]]
    tensors = getattr(configs()[model], side)
    added = NEWER_NAMES | OURS.get(model, set())
    actual = [as_upstream(tensor) for tensor in tensors if tensor.name not in added]
    assert expected == actual


def test_newer_names_are_optional_twins() -> None:
    for model in ("ensemble", "tensorrt_llm_bls", "tensorrt_llm"):
        inputs = {tensor.name: as_upstream(tensor) for tensor in configs()[model].input}
        for old, new in (("random_seed", "seed"), ("min_length", "min_tokens")):
            assert {**inputs[old], "name": new} == inputs[new]


def upstreams(model: str, mapping: Mapping[str, str]) -> dict[str, str]:
    added = NEWER_NAMES | OURS.get(model, set()) | {"lora_task_id"}
    return {name: tensor for name, tensor in mapping.items() if name not in added}


def test_steps() -> None:
    ensemble = configs()["ensemble"].ensemble_scheduling
    actual = [
        {
            "model_name": step.model_name,
            "input_map": upstreams(step.model_name, step.input_map),
            "output_map": upstreams(step.model_name, step.output_map),
        }
        for step in ensemble.step
    ]
    expected = UPSTREAM["ensemble"]["steps"]
    assert expected == actual


@cases(
    "dtype backend expected",
    {
        "float16": ("float16", "TensorRT", "TYPE_FP16"),
        "bfloat16": ("bfloat16", "TensorRT", "TYPE_BF16"),
        "Reference, float16": ("float16", "Reference", "TYPE_FP16"),
        "Reference, numpy has no bfloat16": ("bfloat16", "Reference", "TYPE_FP32"),
    },
)
def test_prompt_table_has_the_engines_dtype(dtype: str, backend: str, expected: str) -> None:
    both = configs(dtype, backend)
    produced = next(
        data_type(tensor)
        for tensor in both["multimodal_encoders"].output
        if tensor.name == "OUT_PROMPT_EMBEDDING_TABLE"
    )
    consumed = next(
        data_type(tensor)
        for tensor in both["tensorrt_llm"].input
        if tensor.name == "prompt_embedding_table"
    )
    assert (expected, expected) == (produced, consumed)
