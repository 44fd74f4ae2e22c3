"""Families whose features read each other: steps have room for an image, and servers a mask."""

import pytest

from mm_api.families import FAMILIES
from support.model_configs import MODELS, facts_of, planned_on_pytorch, reference_plan

MUTUAL = [name for name in MODELS if FAMILIES[name].reference.mutual_images]


@pytest.mark.parametrize("family", MUTUAL)
def test_steps_without_room_for_an_image(family: str) -> None:
    """One token fewer than an image beside all answers is refused, with what would do."""
    facts = facts_of(family)
    assert facts.vision is not None
    least = facts.vision.features_per_image + 4

    found = [
        reference_plan(facts, {"engine": {"maxBatchSize": 4, "maxNumTokens": steps}}).errors
        for steps in (least - 1, least)
    ]

    (refused,), fitting = found
    assert fitting == []
    assert (refused.code, refused.path) == ("NumTokensBelowImage", "spec.engine.maxNumTokens")
    assert f"use at least {least}" in refused.message


@pytest.mark.parametrize("family", MUTUAL)
def test_servers_mask_images(family: str) -> None:
    """The server gets the attention that has masks where images come, and its own else."""
    with_images, text = (
        planned_on_pytorch(family, maxImagesPerRequest=images).serve for images in (1, 0)
    )
    assert with_images is not None
    assert text is not None

    assert with_images.options["attn_backend"] == "FLASHINFER"
    assert with_images.options["enable_chunked_prefill"] is False
    assert "attn_backend" not in text.options
