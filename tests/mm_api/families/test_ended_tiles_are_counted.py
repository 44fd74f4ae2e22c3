"""NVILA: what TensorRT-LLM's class makes of an image, and what is not read.

Expected numbers are upstream's arithmetic: modeling_vila.py and modeling_multimodal_utils.py, and
llava_arch.py of NVlabs/VILA.
"""

from typing import Any

import pytest

from mm_api.checkpoint import CheckpointError
from mm_api.checkpoint.parts import processor_of, with_parts
from mm_api.documents.model_facts import VisionFacts
from mm_api.families import FAMILIES
from mm_api.families.detection import resolve
from mm_api.families.image_layouts.ended import (
    Tokens,
    features_of_square,
    tiles_of_tower,
    tokens_of_grid,
)
from support.cases import cases
from support.model_configs import MODELS

NVILA = MODELS["nvila"].files["config.json"]
TOWER = MODELS["nvila"].files["vision_tower/preprocessor_config.json"]
ENCODER = {"_target_": "llava.model.encoders.BasicImageEncoder"}
LITE = NVILA | {
    "dynamic_s2": False,
    "image_aspect_ratio": "dynamic",
    "mm_hidden_size": 1152,
    "mm_projector_cfg": NVILA["mm_projector_cfg"] | {"mm_projector_type": "mlp_downsample_3x3_fix"},
}
"""As scripts/NVILA-Lite/sft.sh of NVlabs/VILA (36f6adcd) trains it: reconstructed, not copied."""

LITE_2B = LITE | {
    "hidden_size": 1536,
    "llm_cfg": LITE["llm_cfg"]
    | {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
}
"""The same around Qwen2-1.5B, as NVILA-Lite-2B: reconstructed from that model's dimensions."""


def vision_of(config: dict[str, Any], processor: dict[str, Any] | None = None) -> VisionFacts:
    found = FAMILIES[resolve(config, "nvila")].read(
        config, TOWER if processor is None else processor
    )
    assert found.vision is not None
    return found.vision


@cases(
    "side merged expected",
    {
        "lite": (448, 3, 121),  # 32 x 32 patches, 33 with zeros
        "nvila": (448, 2, 256),
        "odd": (384, 2, 196),  # 27 x 27 patches, 28 with zeros
        "divisible": (384, 3, 81),
    },
)
def test_a_tile_is_rounded_up(side: int, merged: int, expected: int) -> None:
    """Zeros fill the last row and column of what becomes a feature."""
    assert features_of_square(side, 14, merged) == expected


@cases(
    "config tiles expected",
    {
        "one-tile-has-no-view": (LITE, 1, Tokens(121, 1)),
        "two-tiles-and-a-view": (LITE, 2, Tokens(3 * 121, 3)),
        "most-tiles-and-a-view": (LITE, 12, Tokens(13 * 121, 13)),
        "scales-end-once": (NVILA, 9, Tokens(9 * 256, 1)),
        "most-tiles-of-the-last-scale": (NVILA, 12, Tokens(12 * 256, 1)),
    },
)
def test_newlines_end_what_is_cut(config: dict[str, Any], tiles: int, expected: Tokens) -> None:
    """A newline a tile; tiles of the last scale are joined again, and have one together."""
    assert tokens_of_grid(vision_of(config), tiles) == expected


@cases(
    "config features newlines tower",
    {"tiles-and-view": (LITE, 1573, 13, 13), "three-scales": (NVILA, 3072, 1, 1 + 4 + 12)},
)
def test_the_largest_image_is_planned(
    config: dict[str, Any], features: int, newlines: int, tower: int
) -> None:
    """Rows, tokens beside them, and what the tower reads of it."""
    vision, family = vision_of(config), FAMILIES["nvila"]

    assert family.layout.features_per_image(vision) == features
    assert family.layout.frame_tokens(vision) == newlines
    assert tiles_of_tower(vision) == family.layout.tiles_per_image(vision) == tower


def test_only_scales_take_several_images() -> None:
    """Without scales the class would give tiles of one image to another."""
    most = FAMILIES["nvila"].trtllm.most_images

    assert (most(vision_of(LITE)), most(vision_of(NVILA))) == (1, None)


def test_a_smaller_one_shares_its_matrices() -> None:
    """NVILA-Lite-2B's text model stores embedding and output once."""
    text = FAMILIES["nvila"].read(LITE_2B, TOWER).text

    assert (text.hidden_size, text.layers, text.head_size, text.tied_embeddings) == (
        *(1536, 28, 128),
        True,
    )


@cases(
    "changes family",
    {
        "scales": ({}, "nvila"),
        "tiles": ({"dynamic_s2": False, "image_aspect_ratio": "dynamic"}, "nvila"),
        "squares": ({"dynamic_s2": False, "image_aspect_ratio": "resize"}, "vila"),
        "projector": (
            {
                "dynamic_s2": False,
                "image_aspect_ratio": "resize",
                "mm_projector_cfg": {"mm_projector_type": "mlp_downsample_2x2_fix"},
            },
            "nvila",
        ),
    },
)
def test_tiles_distinguish_it_from_vila(changes: dict[str, Any], family: str) -> None:
    assert resolve(NVILA | changes, None) == family


def section(key: str, **changes: Any) -> dict[str, Any]:
    return {key: NVILA[key] | changes}


@cases(
    "changes words",
    {
        "class-of-its-own": ({"model_type": "vila"}, "model_type 'vila'"),
        "architecture": ({"architectures": ["VILAForCausalLM"]}, "LlavaLlamaModel"),
        "folder": (section("llm_cfg", _name_or_path="x/text"), "ends in 'llm'"),
        "projector-not-loaded": ({"resume_path": ""}, "resume_path is missing"),
        "dtype": ({"model_dtype": "bfloat16"}, "model_dtype is 'bfloat16'"),
        "tensors-are-not-resized": (
            {"dynamic_s2": False, "image_aspect_ratio": "resize"}
            | section("mm_projector_cfg", mm_projector_type="mlp_downsample_2x2_fix"),
            "image_aspect_ratio is 'resize'",
        ),
        "scales-switched-off": ({"dynamic_s2": False}, "contradict each other"),
        "squares-at-scales": ({"s2": True}, "contradict each other"),
        "text-model": (section("llm_cfg", model_type="mistral"), "expected qwen2"),
        "window": (section("llm_cfg", use_sliding_window=True), "use_sliding_window"),
        "tower": (section("vision_tower_cfg", architectures=["CLIPVisionModel"]), "Siglip"),
        "dropped-patch": ({"mm_vision_select_feature": "patch"}, "'cls_patch'"),
        "layer": ({"mm_vision_select_layer": 28}, "mm_vision_select_layer is 28"),
        "text": ({"mm_vision_select_layer": "-2"}, "an integer from -28 to 27"),
        "looks-closer": ({"ps3": True}, "ps3 is true"),
        "pooled": (
            {"image_encoder": '{"_target_": "llava.model.encoders.TSPImageEncoder"}'},
            "TSPImageEncoder",
        ),
        "no-newline": ({"image_encoder": ENCODER | {"end_tokens": None}}, "end_tokens"),
        "no-json": ({"image_encoder": "{"}, "image_encoder is '{'"),
        "conversation": ({"chat_template": "mistral"}, "null or 'qwen2'"),
        "projector": (
            section("mm_projector_cfg", mm_projector_type="mlp_downsample_3x3_s2"),
            "mlp_downsample_3x3_s2",
        ),
        "one-scale": ({"s2_scales": "448"}, "two or more that rise"),
        "no-multiple": ({"s2_scales": "448,900"}, "multiples"),
        "no-number": ({"s2_scales": "448,a"}, "s2_scales is '448,a'"),
        "other-scale": ({"s2_resize_output_to_scale_idx": 0}, "expected -1"),
        "fewer-tiles-than-squares": ({"max_tiles": 8}, "expected 9 or more"),
    },
)
def test_what_the_class_does_not_read_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CheckpointError) as refused:
        vision_of(NVILA | changes)

    assert words in str(refused.value)


def test_tiles_have_the_size_of_the_tower() -> None:
    """The processor's size is the tile's, but at several scales, where the first scale is."""
    other = TOWER | {"size": {"height": 384, "width": 384}}
    assert vision_of(NVILA, other).image_size == 448

    with pytest.raises(CheckpointError, match="tiles of another size"):
        vision_of(LITE, other)


def test_parts_say_their_own_sizes() -> None:
    """Loaders read llm/config.json; where it lies stands in config.json only."""
    files = {
        "llm/config.json": {"hidden_size": 8, "_name_or_path": "elsewhere"},
        "vision_tower/preprocessor_config.json": {"size": {"height": 14}},
    }
    found = with_parts(NVILA, lambda name: files.get(name, {}))

    assert found["llm_cfg"] == NVILA["llm_cfg"] | {"hidden_size": 8}
    assert found["vision_tower_cfg"] == NVILA["vision_tower_cfg"]
    assert processor_of(lambda name: files.get(name, {})) == {"size": {"height": 14}}
    assert with_parts({"llm_cfg": "llm"}, lambda name: files.get(name, {})) == {"llm_cfg": "llm"}
