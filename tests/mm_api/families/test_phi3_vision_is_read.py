"""Phi-3-vision's config.json: dimensions, weights, and what is refused by its key."""

from collections.abc import Mapping
from math import prod
from typing import Any

import pytest

from mm_api.checkpoint import CheckpointError, Dimensions
from mm_api.families import FAMILIES
from mm_api.families.detection import resolve
from real_models import real_models
from support.cases import cases

FAMILY = FAMILIES["phi3-vision"]
MODEL = next(one for one in real_models() if one.family == FAMILY.name)
CONFIG: Mapping[str, Any] = MODEL.files["config.json"]
PROCESSOR: Mapping[str, Any] = MODEL.files["preprocessor_config.json"]


def read(
    changes: Mapping[str, Any] | None = None, processor: Mapping[str, Any] = PROCESSOR
) -> Dimensions:
    config = {**CONFIG, **(changes or {})}
    assert resolve(config, None) == FAMILY.name
    return FAMILY.dimensions(config, dict(processor), {})


def section(key: str, **changes: Any) -> dict[str, Any]:
    return {key: CONFIG[key] | changes}


def test_the_tower_is_clips() -> None:
    """Sizes that the checkpoint's code has as constants follow from the two that it names."""
    found, vision = read(), read().vision

    assert vision is not None
    assert (found.text.head_size, found.text.max_position_embeddings) == (96, 131072)
    assert (vision.hidden_size, vision.image_size, vision.attention_heads) == (1024, 336, 16)
    assert (vision.layers, vision.feature_layer, vision.max_tiles) == (24, -2, 17)
    assert found.image_token_id is None


def test_weights_beside_the_class_are_counted() -> None:
    """Names and shapes make what the formula counts."""
    layout, found = FAMILY.checkpoint.other_layout, read()
    count = FAMILY.checkpoint.vision_parameters
    assert layout is not None
    assert layout.shapes_beside is not None
    assert count is not None
    assert found.vision is not None
    tower = layout.shapes_beside(dict(CONFIG))

    assert sum(map(prod, tower.values())) == count(found.vision, found.text)


@pytest.mark.parametrize(("crops", "features"), [(1, 313), (4, 781), (16, 2653)])
def test_features_of_a_column(crops: int, features: int) -> None:
    """Of the most tokens that upstream counts, those of an image of one column of tiles."""
    vision = read(processor={"num_crops": crops}).vision

    assert vision is not None
    assert FAMILY.layout.features_per_image(vision) == features
    assert (crops + 1) * 144 + 1 + (crops + 1) * 12 == features


@pytest.mark.parametrize("kind", ["su", "longrope"])
def test_both_names_of_the_rotations(kind: str) -> None:
    """Phi-3.5 and later files of transformers call the same rotations by either."""
    layout = FAMILY.checkpoint.other_layout
    assert layout is not None
    given = dict(CONFIG) | section("rope_scaling", type=kind)

    assert layout.config(given)["rope_scaling"]["rope_type"] == "longrope"


@cases(
    "changes words",
    {
        "order": (
            section("embd_layer", hd_transform_order="glb_sub"),
            "embd_layer.hd_transform_order is 'glb_sub'; expected 'sub_glb'",
        ),
        "separator": (
            section("embd_layer", with_learnable_separator=False),
            "with_learnable_separator is False",
        ),
        "hd": (section("embd_layer", use_hd_transform=False), "use_hd_transform"),
        "mlp": (section("embd_layer", projection_cls="linear"), "projection_cls is 'linear'"),
        "no-layer": ({"embd_layer": None}, "embedding_cls|projection_cls is"),
        "no-tower": ({"img_processor": None}, "img_processor is missing"),
        "class": (section("img_processor", name="siglip"), "img_processor.name is 'siglip'"),
        "tower": (
            section("img_processor", model_name="openai/clip-vit-base-patch16"),
            "expected 'openai/clip-vit-large-patch14-336'",
        ),
        "class-token": (section("img_processor", type_feature="cls_patch"), "type_feature"),
        "half": (section("img_processor", num_img_tokens=100.5), "num_img_tokens"),
        "grid": (section("img_processor", num_img_tokens=143), "expected a square"),
        "heads": (section("img_processor", image_dim_out=1000), "multiple of 64"),
        "layer": (section("img_processor", layer_idx=25), "layer_idx is 25"),
        "yarn": (section("rope_scaling", type="yarn"), "type is 'yarn'"),
        "factors": (section("rope_scaling", short_factor=[1.0]), "expected 48 positive"),
        "no-numbers": (section("rope_scaling", long_factor=["1"] * 48), "long_factor is"),
        "window": ({"sliding_window": 2047}, "sliding_window is 2047"),
    },
)
def test_others_are_refused(changes: Mapping[str, Any], words: str) -> None:
    """The key, its value and what is expected: no field is read and then left out."""
    with pytest.raises(CheckpointError, match=words):
        read(changes)


@pytest.mark.parametrize("crops", [0, 65, "many"])
def test_crops_are_bounded(crops: object) -> None:
    """Pixels of all of them are in memory at once."""
    with pytest.raises(CheckpointError, match="num_crops is"):
        read(processor={"num_crops": crops})
