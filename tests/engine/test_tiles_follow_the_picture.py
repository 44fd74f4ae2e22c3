"""LLaVA-OneVision: tiles become the rows that transformers' own classes make of them."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlavaOnevisionForConditionalGeneration
from transformers.models.llava_onevision import modeling_llava_onevision as upstream

from mm_runtime.engine.vision import anyres
from support.families.pictures import write

TILE, SIDE, LIMIT, HIDDEN = 28, 2, 4, 32
SIZES = [(28, 28), (30, 91), (91, 30), (300, 200), (200, 300), (84, 84), (1, 400), (57, 33)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A small random LLaVA-OneVision."""
    folder = write("llava-onevision", tmp_path_factory.mktemp("family") / "onevision")
    return LlavaOnevisionForConditionalGeneration.from_pretrained(folder).eval().model


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_picture(model: Any, size: tuple[int, int]) -> None:
    """Same grid, same padding cut off, same scaling, same newlines; the count is known before."""
    grids = [tuple(pair) for pair in model.config.image_grid_pinpoints]
    grid = anyres.best_grid(size, grids)
    tiles = upstream.image_size_to_num_patches(size, [list(pair) for pair in grids], TILE)
    features = torch.randn(tiles, SIDE**2, HIDDEN)
    with torch.no_grad():
        wanted, _ = model.pack_image_features(
            [features], torch.tensor([size]), model.image_newline, f"anyres_max_{LIMIT}"
        )
    newline = model.image_newline.detach().numpy()
    found = anyres.pack_picture(
        features.numpy(), size, grid, tile=TILE, limit=LIMIT, newline=newline
    )
    np.testing.assert_allclose(wanted[0].numpy(), found, atol=1e-5)
    rows = anyres.rows_of_picture(size, grids, tile=TILE, side=SIDE, limit=LIMIT)
    assert len(wanted[0]) == rows


@pytest.mark.parametrize("side", [2, 3, 27])
def test_video(model: Any, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames are pooled as upstream pools them, odd sides included."""
    monkeypatch.setattr(model.config.vision_config, "image_size", side * 14)
    frames = torch.randn(3, side**2, HIDDEN)
    newline = model.image_newline.detach().numpy()
    pooled = model.apply_pooling(frames).reshape(-1, HIDDEN).numpy()
    found = anyres.pack_video(frames.numpy(), newline)
    np.testing.assert_allclose(np.concatenate((pooled, newline[None])), found, atol=1e-5)
