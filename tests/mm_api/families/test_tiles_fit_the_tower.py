"""Numbered tiles: they are the tower's images, and the tokens among them have room."""

from typing import Any

import pytest

from mm_api.checkpoint.values import CheckpointError
from mm_api.families import FAMILIES
from mm_api.families.image_layouts.numbered import NUMBERED as LAYOUT
from support.cases import cases
from support.model_configs import MODELS, WITH_IMAGES, facts_of

NUMBERED = [n for n in WITH_IMAGES if FAMILIES[n].layout.title == LAYOUT.title]


@pytest.mark.parametrize("family", NUMBERED)
@cases(
    "processor words",
    {
        "tile": ({"max_image_size": {"longest_edge": 100}}, "expected vision_config"),
        "odd": ({"size": {"longest_edge": 1000}}, "expected a multiple"),
        "too-large": ({"size": {"longest_edge": 46_592}}, "up to 4096"),
        "no-number": ({"size": {"longest_edge": "all"}}, "whole number"),
    },
)
def test_sizes_that_do_not_fit(family: str, processor: dict[str, Any], words: str) -> None:
    """A processor whose tiles the tower does not read is refused."""
    files = MODELS[family].files
    given = {**files["preprocessor_config.json"], **processor}

    with pytest.raises(CheckpointError, match=words):
        FAMILIES[family].read(files["config.json"], given)


@pytest.mark.parametrize("family", NUMBERED)
def test_images_that_are_not_split(family: str) -> None:
    """Without splitting an image is its view: one tile's features and the tokens around them."""
    files = MODELS[family].files
    given = {**files["preprocessor_config.json"], "do_image_splitting": False}
    vision = FAMILIES[family].read(files["config.json"], given).vision
    assert vision is not None

    assert FAMILIES[family].layout.features_per_image(vision) == vision.features_per_image
    assert FAMILIES[family].layout.frame_tokens(vision) == 4


@pytest.mark.parametrize("family", NUMBERED)
def test_tokens_of_the_largest_grid(family: str) -> None:
    """Two for each of 4 x 4 tiles, four ends of rows, and at most four around the view."""
    vision = facts_of(family).vision
    assert vision is not None

    assert FAMILIES[family].layout.frame_tokens(vision) == 4 * (2 * 4 + 1) + 4
