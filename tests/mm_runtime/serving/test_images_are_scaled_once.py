"""The tower sees of an image what the checkpoint's processor makes of the original.

The gateway makes images small, and the model behind resizes what it receives.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import Qwen2VLImageProcessorPil

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.grids import GridProcessor
from mm_runtime.serving.preprocess.processors.prepared import KEPT_PIXELS, Colours, Size
from mm_runtime.serving.preprocess.processors.resize import ImagePreprocessor
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.preprocess.processors.tiles import TileProcessor
from mm_runtime.serving.preprocess.processors.views import ViewProcessor
from support.families.expected import noise_image

COLOURS = Colours((0.5,) * 3, (0.5,) * 3, 1 / 255, Image.Resampling.BICUBIC)
SIZES = [
    *[(1, 1), (28, 28), (27, 29), (55, 57), (64, 64), (64, 96), (96, 64), (90, 30)],
    *[(1, 150), (150, 1), (600, 4), (4, 600), (40, 900), (300, 200), (480, 640), (1000, 700)],
]
"""Height and width."""

BOUNDS = [
    pytest.param(784, 12_544, id="one feature to sixteen"),
    pytest.param(3_136, 3_136, id="equal"),
    pytest.param(3_136, 4_704, id="close"),
    pytest.param(50_000, 60_000, id="close and larger"),
    pytest.param(3_136, 1_003_520, id="of Qwen2-VL"),
]


def grid(least: int, most: int) -> GridProcessor:
    return GridProcessor(COLOURS, patch=14, merge=2, least_pixels=least, most_pixels=most)


@pytest.mark.parametrize(("least", "most"), BOUNDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("there", [False, True], ids=["resized here", "where it is cheap"])
def test_patches(size: Size, least: int, most: int, *, there: bool) -> None:
    """Those of transformers, however close the bounds are and whatever an image's shape."""
    image = noise_image(size[1], size[0], seed=sum(size))
    upstream: Any = Qwen2VLImageProcessorPil(
        min_pixels=least, max_pixels=most, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )
    wanted = upstream([image], return_tensors="np")
    processor = replace(grid(least, most), resized_there=there)
    reduced = processor.reduced(image, 1)
    found = processor.prepare([reduced])

    assert (reduced is image) or not (there and size == (1000, 700) and most > 1_000_000)
    assert wanted["image_grid_thw"][0].tolist() == found.tensors["IMAGE_GRID_THW"].tolist()
    np.testing.assert_allclose(
        found.tensors["PIXEL_VALUES"][0, 0], wanted["pixel_values"], atol=2e-3
    )
    assert processor.rows_of([(reduced.height, reduced.width)]) == found.rows


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_frames_of_videos(size: Size) -> None:
    """A frame is reduced to what becomes the same patches; here up to 6,272 pixels."""
    processor = grid(3_136, 3_136)
    frame = noise_image(size[1], size[0], seed=1)
    if size[0] * size[1] > 2 * 3_136:
        assert processor.reduced_frame(frame).width < frame.width
        return
    wanted, found = (
        processor.prepare_video([one] * 2).tensors["PIXEL_VALUES"]
        for one in (frame, processor.reduced_frame(frame))
    )
    np.testing.assert_array_equal(found, wanted)


PROCESSORS = [
    pytest.param(TileProcessor(COLOURS, side=28, tiles=4, positions=5), id="tiles"),
    pytest.param(
        ViewProcessor(COLOURS, 28, 2, ((28, 56), (56, 28)), 9, single_views=False, video=True),
        id="views",
    ),
    pytest.param(
        SquareProcessor(ImagePreprocessor(28, 28, (0.5,) * 3, (0.5,) * 3), rows=4), id="squares"
    ),
]


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_images_that_are_cut_up(processor: Any, size: Size) -> None:
    """Tests of each way to cut images up compare `prepare` with transformers."""
    if isinstance(processor, SquareProcessor) and max(size) > 16 * min(size):
        pytest.skip("strips are cut before they are resized")
    image = noise_image(size[1], size[0], seed=sum(size))
    try:
        wanted = processor.prepare([image])
    except RequestError:
        pytest.skip("nothing is left of the shorter side")
    reduced = processor.reduced(image, 1)
    found = processor.prepare([reduced])

    assert found.rows == wanted.rows
    np.testing.assert_array_equal(found.tensors["PIXEL_VALUES"], wanted.tensors["PIXEL_VALUES"])


def test_larger_images_are_bounded() -> None:
    """What a request holds in memory has a limit, also where the original is needed."""
    image = noise_image(3000, 1500, seed=0)
    reduced = grid(3_136, 3_136).reduced(image, 1)
    assert 0.99 * KEPT_PIXELS < reduced.width * reduced.height <= KEPT_PIXELS


def test_bounds_of_a_request_act_or_are_refused() -> None:
    """The model behind does not know them: what it would resize again is not sent."""
    processor = replace(grid(3_136, 1_003_520), shown=(3_136, 12_544))
    assert processor.reduced(noise_image(600, 4, seed=0), 1).size == (700, 28)
    with pytest.raises(RequestError, match="no size of 784 to 1176 pixels resembles the image"):
        replace(grid(784, 4_704), shown=(784, 1_176)).reduced(noise_image(199, 1, seed=0), 1)
