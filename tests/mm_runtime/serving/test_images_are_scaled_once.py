"""Images are scaled once, as the checkpoint's processor does, within the requested bounds."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import Qwen2VLImageProcessorPil, Qwen2VLVideoProcessor

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.grids import LOW_PIXELS, GridProcessor
from mm_runtime.serving.preprocess.processors.prepared import KEPT_PIXELS, Colours, Size
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.preprocess.processors.tiles import TileProcessor
from mm_runtime.serving.preprocess.processors.views import ViewProcessor
from support.cases import cases
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


MOST = 1280 * 784
GRID = GridProcessor(COLOURS, patch=14, merge=2, least_pixels=3136, most_pixels=MOST)
TILES = TileProcessor(COLOURS, side=28, tiles=4, positions=5)
SQUARE = SquareProcessor(28, 28, COLOURS, rows=4)
VIEWS = ViewProcessor(
    COLOURS, tile=28, side=2, grids=((28, 56), (56, 28)), limit=None, single_views=True, video=True
)


def _image(size: Size) -> Image.Image:
    return noise_image(size[1], size[0], seed=sum(size))


def grid(least: int, most: int) -> GridProcessor:
    return GridProcessor(COLOURS, patch=14, merge=2, least_pixels=least, most_pixels=most)


@pytest.mark.parametrize(("least", "most"), BOUNDS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("there", [False, True], ids=["resized here", "where it is cheap"])
def test_patches(size: Size, least: int, most: int, *, there: bool) -> None:
    image = _image(size)
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


@cases(
    "processor",
    {
        "tiles": TILES,
        "views": replace(VIEWS, limit=9, single_views=False),
        "squares": SQUARE,
    },
)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_images_that_are_cut_up(processor: Any, size: Size) -> None:
    """Tests of each way to cut images up compare `prepare` with transformers."""
    if isinstance(processor, SquareProcessor) and max(size) > 16 * min(size):
        pytest.skip("strips are cut before they are resized")
    image = _image(size)
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


def test_low_detail_acts_or_is_refused() -> None:
    """The model behind does not know it: what it would resize again is not sent."""
    processor = replace(grid(3_136, 1_003_520), shown_pixels=12_544)
    assert processor.reduced(noise_image(600, 4, seed=0), 1).size == (700, 28)
    with pytest.raises(RequestError, match="no size of 784 to 1176 pixels resembles the image"):
        replace(grid(784, 4_704), shown_pixels=1_176).reduced(noise_image(199, 1, seed=0), 1)


DETAIL_SIZES = [
    (1, 1),
    (28, 28),
    (30, 91),
    (400, 300),
    (1, 150),
    (1080, 1920),
    (27, 29),
    (2000, 40),
]
"""Height and width."""


@pytest.mark.parametrize("size", DETAIL_SIZES, ids=str)
def test_low_detail_is_one_tile(size: Size) -> None:
    image = _image(size)
    tile = TILES.with_detail("low", 1).reduced(image, 1)

    assert TILES.canvas(tile.height, tile.width) == (1, 1)
    assert TILES.cross_attention_rows([(tile.height, tile.width)]) == TILES.positions


def test_high_detail_is_what_the_family_does() -> None:
    image = _image((300, 400))
    for processor in (GRID, TILES, VIEWS):
        plain, high = (
            processor.with_detail(detail, 1).reduced(image, 1) for detail in ("auto", "high")
        )
        assert plain.tobytes() == high.tobytes()
    low = GRID.with_detail("low", 1).reduced(_image((1080, 1920)), 1)
    assert low.width * low.height <= LOW_PIXELS < GRID.most_pixels


@cases(
    "processor detail count",
    {
        "one square is low already": (SQUARE, "high", 1),
        "a view and tiles": (VIEWS, "low", 1),
        "views and tiles of several": (replace(VIEWS, single_views=False), "low", 2),
        "larger at the least": (replace(GRID, least_pixels=LOW_PIXELS + 1), "low", 1),
    },
)
def test_other_details_are_refused(
    processor: SquareProcessor | ViewProcessor, detail: str, count: int
) -> None:
    with pytest.raises(RequestError, match=r"expected `auto` or|at the least"):
        processor.with_detail(detail, count)  # type: ignore[arg-type]


def test_one_view_of_several_images_is_low_detail() -> None:
    assert VIEWS.with_detail("low", 2) == VIEWS
    assert SQUARE.with_detail("low", 1) == SQUARE


@settings(deadline=None, max_examples=200)
@given(size=st.tuples(st.integers(1, 4000), st.integers(1, 4000)), shown=st.integers(12544, MOST))
def test_reduced_images_stay_as_they_are(size: Size, shown: int) -> None:
    """Within any bound of a detail; but for strips, which no rounding can hold to them."""
    assume(max(size) / min(size) <= 8)
    processor = replace(GRID, shown_pixels=shown)
    reduced = processor.reduced(Image.new("L", size[::-1]), 1)

    assert GRID.rounded(reduced.height, reduced.width) == (reduced.height, reduced.width)
    assert GRID.rows_of([(reduced.height, reduced.width)])[0] * 784 <= MOST


UNIT = 28
VIDEOS_BOUNDS = (4 * UNIT**2, 64 * UNIT**2)
NARROWER: dict[str, Any] = {"size": {"shortest_edge": 12 * UNIT**2, "longest_edge": 30 * UNIT**2}}


def of_images() -> GridProcessor:
    return GridProcessor(COLOURS, 14, 2, *VIDEOS_BOUNDS)


def written(folder: Path, **files: object) -> Path:
    for name, content in files.items():
        (folder / f"{name}_config.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("files", "bounds"),
    [
        ({"preprocessor": {"min_pixels": 9408, "max_pixels": 40000}}, (9408, 40000)),
        ({"preprocessor": {"min_pixels": 1, "max_pixels": 10**8}}, VIDEOS_BOUNDS),
        (
            {"preprocessor": {"max_pixels": 10**8}, "video_preprocessor": NARROWER},
            (12 * UNIT**2, 30 * UNIT**2),
        ),
        ({"processor": {"video_processor": {"min_pixels": 9408}}}, (9408, 64 * UNIT**2)),
    ],
    ids=["images-of-both", "wider", "videos-own", "in-one-file"],
)
def test_sizes_are_within_both(
    tmp_path: Path, files: dict[str, object], bounds: tuple[int, int]
) -> None:
    """The narrower bound counts, from the file that transformers reads."""
    if "processor" in files:  # where nothing says it, a frame has 602,112 pixels at the most
        assert VIDEOS_BOUNDS[1] < 768 * UNIT**2
    found = of_images().within_videos(written(tmp_path, **files))
    assert (found.least_pixels, found.most_pixels) == bounds


def test_bounds_that_exclude_each_other_are_refused(tmp_path: Path) -> None:
    files = {"preprocessor": {"min_pixels": 65 * UNIT**2, "max_pixels": 10**8}}
    with pytest.raises(ValueError, match="no size is both"):
        of_images().within_videos(written(tmp_path, **files))


@pytest.mark.parametrize("size", [(300, 200), (28, 28), (1000, 90), (31, 64)])
def test_a_frame_has_the_patches_of_the_image(tmp_path: Path, size: tuple[int, int]) -> None:
    """Whatever its size was, the video processor leaves it, and cuts it as the image's does."""
    processor = of_images().within_videos(written(tmp_path, video_preprocessor=NARROWER))
    noise = np.random.default_rng(1).integers(0, 256, (*size[::-1], 3), np.uint8)
    image = processor.reduced(Image.fromarray(noise), 1)
    frames = np.stack([np.asarray(image)] * 2).transpose(0, 3, 1, 2)
    videos: Any = Qwen2VLVideoProcessor(**NARROWER)
    images: Any = Qwen2VLImageProcessorPil(min_pixels=VIDEOS_BOUNDS[0], max_pixels=VIDEOS_BOUNDS[1])
    read = videos([frames], return_tensors="np")
    wanted = images([image], return_tensors="np")

    assert read["video_grid_thw"].tolist() == wanted["image_grid_thw"].tolist()
    assert read["video_grid_thw"][0][1:].tolist() == [image.height // 14, image.width // 14]
    np.testing.assert_allclose(read["pixel_values_videos"], wanted["pixel_values"], atol=1e-5)
