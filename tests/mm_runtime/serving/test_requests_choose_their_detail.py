"""Detail and bounds of pixels act before an image is sent; `prepare` leaves it as it is then."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.grids import LOW_PIXELS, GridProcessor
from mm_runtime.serving.preprocess.processors.prepared import Colours, Size
from mm_runtime.serving.preprocess.processors.resize import ImagePreprocessor
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.preprocess.processors.tiles import TileProcessor
from mm_runtime.serving.preprocess.processors.views import ViewProcessor
from support.cases import cases

COLOURS = Colours((0.5,) * 3, (0.5,) * 3, 1 / 255, Image.Resampling.BICUBIC)
MOST = 1280 * 784
GRID = GridProcessor(COLOURS, patch=14, merge=2, least_pixels=3136, most_pixels=MOST)
TILES = TileProcessor(COLOURS, side=28, tiles=4, positions=5)
SQUARE = SquareProcessor(ImagePreprocessor(28, 28, (0.5,) * 3, (0.5,) * 3), rows=4)
VIEWS = ViewProcessor(
    COLOURS, tile=28, side=2, grids=((28, 56), (56, 28)), limit=None, single_views=True, video=True
)
SIZES = [(1, 1), (28, 28), (30, 91), (400, 300), (1, 150), (1080, 1920), (27, 29), (2000, 40)]
"""Height and width."""


def _image(size: Size) -> Image.Image:
    values = np.random.default_rng(sum(size)).integers(0, 256, (*size, 3), dtype=np.uint8)
    return Image.fromarray(values)


@pytest.mark.parametrize("size", [one for one in SIZES if one != (2000, 40)], ids=str)
@cases(
    "bounds",
    {
        "fewer": {"max_pixels": 256 * 784},
        "fewest": {"max_pixels": 4 * 3136},
        "more": {"min_pixels": 300 * 784},
        "between": {"min_pixels": 64 * 784, "max_pixels": 256 * 784},
    },
)
def test_bounds_are_those_of_the_checkpoints_processor(size: Size, bounds: dict[str, int]) -> None:
    """An image has the size that transformers gives it with the same options."""
    processor = GRID
    for name, value in bounds.items():
        processor = processor.with_option(name, value)
    reduced = processor.reduced(_image(size), 1)
    wanted = {"min_pixels": GRID.least_pixels, "max_pixels": GRID.most_pixels, **bounds}
    expected = smart_resize(*size, factor=28, **wanted)

    assert (reduced.height, reduced.width) == expected
    assert GRID.rounded(*expected) == expected
    assert GRID.reduced(reduced, 1).tobytes() == reduced.tobytes()


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_low_detail_is_one_tile(size: Size) -> None:
    """Whatever its shape, what fits a tile."""
    image = _image(size)
    tile = TILES.with_detail("low", 1).reduced(image, 1)

    assert TILES.canvas(tile.height, tile.width) == (1, 1)
    assert TILES.cross_attention_rows([(tile.height, tile.width)]) == TILES.positions


def test_high_detail_is_what_the_family_does() -> None:
    """Images that are cut up are cut up as without the field."""
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
    """Where a family has no such view of an image."""
    with pytest.raises(RequestError, match=r"expected `auto` or|at the least"):
        processor.with_detail(detail, count)  # type: ignore[arg-type]


def test_one_view_of_several_images_is_low_detail() -> None:
    assert VIEWS.with_detail("low", 2) == VIEWS
    assert SQUARE.with_detail("low", 1) == SQUARE


@pytest.mark.parametrize(
    "value",
    [3135, MOST + 1, "12544", 12544.0, True, None, 10**30],
    ids=["below the checkpoint's", "above the plan's", "text", "float", "true", "null", "huge"],
)
def test_values_beyond_checkpoint_and_plan_are_refused(value: object) -> None:
    """More would take rows that the plan has no memory for; less would be enlarged again."""
    for name, bounds in (("min_pixels", "3136 to 250880"), ("max_pixels", "12544 to 1003520")):
        with pytest.raises(RequestError, match=f"expected a number of pixels from {bounds}"):
            GRID.with_option(name, value)
    with pytest.raises(RequestError, match="20000 pixels at the least are more than 15000"):
        GRID.with_option("max_pixels", 15000).with_option("min_pixels", 20000)


@settings(deadline=None, max_examples=200)
@given(
    size=st.tuples(st.integers(1, 4000), st.integers(1, 4000)),
    least=st.integers(3136, MOST // 4),
    most=st.integers(12544, MOST),
)
def test_reduced_images_stay_as_they_are(size: Size, least: int, most: int) -> None:
    """Within any bounds that are accepted; but for strips, which no rounding can hold to them."""
    assume(max(size) / min(size) <= 8 and least <= most)
    processor = GRID.with_option("min_pixels", least).with_option("max_pixels", most)
    shown = Image.new("L", size[::-1])
    reduced = processor.reduced(shown, 1)

    assert GRID.rounded(reduced.height, reduced.width) == (reduced.height, reduced.width)
    assert GRID.rows_of([(reduced.height, reduced.width)])[0] * 784 <= MOST
