"""Classes of transformers without a record: generic, or refused with the reason and a relative."""

import re
from importlib.metadata import version
from typing import Any

import pytest

from mm_api.checkpoint import CheckpointError
from mm_api.documents.model_facts import InspectReason
from mm_api.families import FAMILIES
from mm_api.families.detection import LOOK_ALIKES, resolve
from mm_api.families.known_classes import CLASSES, TRANSFORMERS, served_types
from support.cases import cases


def test_what_the_table_is_of() -> None:
    """The transformers that is pinned, and every class that it maps from image and text."""
    assert version("transformers") == TRANSFORMERS
    assert {"aria", "aya_vision", "paligemma", "idefics2", "ovis2"} <= {*served_types()}


@pytest.mark.parametrize(
    "kind", ["aria", "chameleon", "deepseek_vl", "llama4", "kimi_k25", "qwen3_vl_moe"]
)
def test_classes_that_run_are_generic(kind: str) -> None:
    config: dict[str, Any] = {"model_type": kind}

    assert resolve(config, None) == "generic"
    assert (
        FAMILIES["generic"].read(config, {}).text.hidden_size
        == CLASSES[kind]["text"]["hidden_size"]
    )


@cases(
    "config words",
    {
        "no-images": ({"model_type": "evolla"}, ["EvollaProcessor reads no images"]),
        "two-stacks": ({"model_type": "florence2"}, ["it is an encoder-decoder"]),
        "own-generate": ({"model_type": "blip"}, ["a `generate` of its own", "'blip-2'"]),
        "not-compared": (
            {"model_type": "lfm3_vl"},
            [
                "not compared with transformers' in this version",
                "'lfm2_vl'",
                "docs/reference/families.md",
            ],
        ),
        "own-prompt": ({"model_type": "got_ocr2"}, ["its processor writes the prompt itself"]),
        "no-processor": ({"model_type": "mistral4"}, ["has no processor for it"]),
        "phi4": ({"model_type": "phi4mm"}, ["is Phi-4-multimodal", "family qwen2-5-omni"]),
        "phi3-vision": ({"model_type": "phi3_v"}, ["Phi-3-vision", "family qwen2-5-vl"]),
        "internvl-of-opengvlab": (
            {"model_type": "internvl_chat"},
            ["in OpenGVLab's own layout", "ends in -hf"],
        ),
        "nvila": (
            {"model_type": "nvila"},
            ["is NVILA with Python code", "family llava-onevision"],
        ),
        "answers-with-audio": (
            {"model_type": "qwen3_omni_moe"},
            ["Qwen3-Omni", "family qwen2-5-omni"],
        ),
        "class-without-processor": ({"model_type": "qwen3_omni_moe_thinker"}, ["Qwen3-Omni"]),
        "no-class": (
            {"model_type": "llava_nexd"},
            [f"text of transformers {TRANSFORMERS}", "model_type 'llava_next'", "generic"],
        ),
    },
)
def test_others_are_refused(config: dict[str, Any], words: list[str]) -> None:
    """The reason, and the served model_type that is spelled most alike."""
    with pytest.raises(CheckpointError) as refused:
        resolve(config, None)

    assert refused.value.reason is InspectReason.UNKNOWN_FAMILY
    assert [one for one in words if one not in str(refused.value)] == []


def test_a_record_comes_first() -> None:
    """What is known better is never generic."""
    assert resolve({"model_type": "gemma3"}, None) == "gemma3"
    with pytest.raises(CheckpointError, match=r"config\.json is a gemma3 checkpoint"):
        resolve({"model_type": "gemma3"}, "generic")


@cases(
    "text expected",
    {
        "all-defaults": ({}, (8192, 64, 128)),
        "given": ({"hidden_size": 4096, "num_attention_heads": 16}, (4096, 16, 256)),
        "grouped": ({"num_key_value_heads": 8}, (8192, 8, 128)),
    },
)
def test_sizes_that_follow_from_others(
    text: dict[str, int], expected: tuple[int, int, int]
) -> None:
    """Key-value heads follow the heads, and their size the width, where the class has it so."""
    facts = FAMILIES["generic"].read({"model_type": "aya_vision", "text_config": text}, {}).text

    assert (facts.hidden_size, facts.key_value_heads, facts.head_size) == expected


def test_a_width_for_each_layer() -> None:
    text = {"intermediate_size": [4096, 8192]}
    config = {"model_type": "gemma3n", "text_config": text}

    assert FAMILIES["generic"].read(config, {}).text.intermediate_size == 8192


@cases(
    "config processor expected",
    {
        "a-square": ({"model_type": "paligemma"}, {}, 256),
        "tiles-and-a-view": (
            {"model_type": "aya_vision", "downsample_factor": 2},
            {"max_patches": 12},
            13 * 13**2,
        ),
        "a-perceiver": (
            {"model_type": "idefics2", "perceiver_config": {"resampler_n_latents": 64}},
            {},
            64,
        ),
    },
)
def test_features_are_estimated(
    config: dict[str, Any], processor: dict[str, Any], expected: int
) -> None:
    vision = FAMILIES["generic"].read(config, processor).vision

    assert vision is not None
    assert vision.features_per_image == expected


def test_relatives_are_families() -> None:
    named = re.findall(r"family ([a-z0-9-]+)", " ".join(LOOK_ALIKES.values()))

    assert named
    assert {one for one in named if not (one in FAMILIES and FAMILIES[one].backends)} == set()
