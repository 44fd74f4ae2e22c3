"""Families of views: tiles become the rows that transformers' own classes make of them."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from mm_api.families import FAMILIES
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry import anyres
from mm_runtime.serving.preprocess.preprocessing import Preprocessor
from support.build_plans import serving_plan
from support.families.images import CASES, write
from support.families.pipeline import BATCH, build

TILE, SIDE, HIDDEN = 28, 2, 32
SIZES = [(28, 28), (30, 91), (91, 30), (300, 200), (200, 300), (84, 84), (1, 400), (57, 33)]


VIEWS = [family for family in CASES if FAMILIES[family].layout.processor == "views"]


@dataclass(frozen=True)
class Upstream:
    """A small random checkpoint in transformers, and the limit of grids in its facts."""

    family: str
    model: Any
    limit: int | None


def upstream_of(family: str, folder: Path) -> Upstream:
    write(family, folder)
    record = FAMILIES[family]
    complete = getattr(transformers, record.transformers_class).from_pretrained(folder).eval()
    vision = record.read(json.loads((folder / "config.json").read_text()), {}).vision
    assert vision is not None
    return Upstream(family, complete.model, vision.grid_limit)


@pytest.fixture(scope="module", params=VIEWS)
def upstream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    return upstream_of(request.param, tmp_path_factory.mktemp("family") / "checkpoint")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return upstream_of("llava-onevision", tmp_path_factory.mktemp("video") / "checkpoint").model


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_image(upstream: Upstream, size: tuple[int, int]) -> None:
    model, limit = upstream.model, upstream.limit
    grids = [tuple(pair) for pair in model.config.image_grid_pinpoints]
    grid = anyres.best_grid(size, grids)
    module = sys.modules[type(model).__module__]
    tiles = module.image_size_to_num_patches(size, [list(pair) for pair in grids], TILE)
    assert tiles == anyres.tiles_of(grid, TILE)
    features = torch.randn(tiles, SIDE**2, HIDDEN)
    with torch.no_grad():
        wanted, _ = model.pack_image_features(
            [features],
            torch.tensor([size]),
            image_newline=model.image_newline,
            **CASES[upstream.family].packing,
        )
    newline = model.image_newline.detach().numpy()
    found = anyres.pack_image(features.numpy(), size, grid, tile=TILE, limit=limit, newline=newline)
    np.testing.assert_allclose(wanted[0].numpy(), found, atol=1e-5)
    rows = anyres.rows_of_image(size, grids, tile=TILE, side=SIDE, limit=limit)
    assert len(wanted[0]) == rows


@pytest.mark.parametrize("side", [2, 3, 27])
def test_video(model: Any, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.config.vision_config, "image_size", side * 14)
    frames = torch.randn(3, side**2, HIDDEN)
    newline = model.image_newline.detach().numpy()
    pooled = model.apply_pooling(frames).reshape(-1, HIDDEN).numpy()
    found = anyres.pack_video(frames.numpy(), newline)
    np.testing.assert_allclose(np.concatenate((pooled, newline[None])), found, atol=1e-5)


def test_rows_above_the_plans_are_refused(tmp_path: Path) -> None:
    """Where a spec bounds images (`engine.maxMultimodalLen`), by what each becomes."""
    write("llava-onevision", tmp_path / "checkpoint")
    bound = {"max_multimodal_len": BATCH * 20}
    directory = build(tmp_path / "checkpoint", tmp_path / "store", lengths=bound)
    plan = serving_plan(directory.manifest.fingerprint)
    preprocessor = Preprocessor.load(directory, plan)

    def prepare(side: int) -> object:
        query = np.array([[b"<image> what ?"]], dtype=np.object_)
        pixels = np.zeros((1, 1, side, side, 3), np.uint8)
        tokens = np.array([[1]], dtype=np.int32)
        named = {"QUERY": query, "IMAGE_BYTES": pixels, "REQUEST_OUTPUT_LEN": tokens}
        return preprocessor.prepare(named)

    prepare(28)
    with pytest.raises(RequestError, match="at most 20 are planned for"):
        prepare(300)
