"""Images in lines: their largest size fits the tower, and the tokens between lines have room."""

from typing import Any

import pytest

from mm_api.checkpoint.values import CheckpointError
from mm_api.families import FAMILIES
from mm_api.families.image_layouts.lines import LINES as LAYOUT
from support.cases import cases
from support.model_configs import MODELS, WITH_IMAGES, facts_of, planned

LINES = [name for name in WITH_IMAGES if FAMILIES[name].layout.title == LAYOUT.title]


@pytest.mark.parametrize("family", LINES)
@cases(
    "processor words",
    {
        "patch": ({"patch_size": {"height": 9, "width": 9}}, "of two checkpoints"),
        "oblong": ({"patch_size": {"height": 14, "width": 16}}, "two checkpoints"),
        "odd": ({"size": {"longest_edge": 1541}}, "expected a multiple"),
        "too-large": ({"size": {"longest_edge": 15_680}}, "up to vision_config"),
        "no-number": ({"size": {"longest_edge": "all"}}, "whole number"),
    },
)
def test_sizes_that_do_not_fit(family: str, processor: dict[str, Any], words: str) -> None:
    """Files of two checkpoints, or a processor that the tower has no positions for, are refused."""
    files = MODELS[family].files
    given = {**files["preprocessor_config.json"], **processor}

    with pytest.raises(CheckpointError, match=words):
        FAMILIES[family].read(files["config.json"], given)


@pytest.mark.parametrize("family", LINES)
def test_lines_have_room_for_their_ends(family: str) -> None:
    """A prompt that has room for features alone has none for the tokens that end their lines."""
    vision = facts_of(family).vision
    assert vision is not None
    record = FAMILIES[family]
    needed = vision.features_per_image + record.layout.frame_tokens(vision) + record.template_tokens

    found = [
        [error.code for error in planned(family, {"maxInputLen": length}).errors]
        for length in (needed, needed + 1)
    ]

    assert found == [["InputLenTooShort"], []]
