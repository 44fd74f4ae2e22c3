"""Images that servers of others cut are counted as the processors of transformers cut them."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Idefics3ImageProcessorPil, SmolVLMImageProcessorPil
from transformers.models.got_ocr2 import image_processing_pil_got_ocr2 as tiled
from transformers.models.idefics3.processing_idefics3 import Idefics3Processor
from transformers.models.pixtral import image_processing_pil_pixtral as with_pillow

from mm_api.families import FAMILIES
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.own import OwnProcessor
from support.families.expected import noise_image
from support.model_configs import facts_of

PATCH, MERGE, LONGEST = 14, 2, 1540
TILE, ROWS = 28, 4

UPSTREAM = SimpleNamespace(
    patch_size=PATCH,
    spatial_merge_size=MERGE,
    image_token="[IMG]",
    image_break_token="[IMG_BREAK]",
    image_end_token="[IMG_END]",
)
"""What PixtralProcessor reads of itself."""


def ours(family: str, **sizes: object) -> OwnProcessor:
    vision = facts_of(family).vision
    assert vision is not None
    return OwnProcessor(family, vision.model_copy(update=sizes))


LINES = ours("mistral3", image_size=LONGEST, patch_size=PATCH, merge_size=MERGE)


def numbered(longest: int, most: int) -> OwnProcessor:
    sizes = {"image_size": TILE, "features_per_image": ROWS}
    return ours("idefics3", longest_side=longest, max_tiles=most, **sizes)


def upstreams_processor() -> Any:
    """Return the class, with the module beside it that needs no torchvision."""
    name = "transformers.models.pixtral.image_processing_pixtral"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, with_pillow)
        from transformers.models.pixtral.processing_pixtral import (  # noqa: PLC0415 (patched)
            PixtralProcessor,
        )
    return PixtralProcessor


@given(size=st.tuples(st.integers(28, 6000), st.integers(28, 6000)))
def test_lines(size: tuple[int, int]) -> None:
    fitted = with_pillow.get_resize_output_image_size(
        SimpleNamespace(shape=(3, *size)),
        size=(LONGEST, LONGEST),
        patch_size=(PATCH * MERGE,) * 2,
        input_data_format="channels_first",
    )
    written = upstreams_processor().replace_image_token(UPSTREAM, {"image_sizes": [fitted]}, 0)

    assert LINES.rows_of([size]) == (written.count("["),)


def test_a_strip_of_nothing() -> None:
    """A strip whose shorter side would have no pixel is refused; upstream makes no lines of it."""
    for size in ((1, 10_000), (10_000, 1)):
        with pytest.raises(RequestError, match="nothing is left"):
            LINES.rows_of([size])


@pytest.mark.parametrize("kind", [Idefics3ImageProcessorPil, SmolVLMImageProcessorPil])
@pytest.mark.parametrize("splits", [True, False], ids=["split", "view"])
@settings(deadline=None, max_examples=40)
@given(
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)).filter(
        # Upstream fails on strips that have less than a pixel left.
        lambda size: max(size) < 112 * min(size)
    )
)
def test_numbered_tiles(kind: type, size: tuple[int, int], *, splits: bool) -> None:
    """As many tiles, and as many tokens around them; line breaks before the view count as two."""
    image = noise_image(*size, seed=sum(size))
    found = kind(
        size={"longest_edge": 112},
        max_image_size={"longest_edge": TILE},
        do_image_splitting=splits,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )([[image]], return_row_col_info=True, return_tensors="np")
    own = SimpleNamespace(
        fake_image_token="<", image_token="*", global_image_tag="<", image_seq_len=ROWS
    )
    grid = {"rows": [found["rows"][0]], "cols": [found["cols"][0]]}
    written = Idefics3Processor.replace_image_token(own, grid, 0)
    assert isinstance(written, str)
    assert written.count("*") == ROWS * len(found["pixel_values"][0])

    counted = numbered(112, 17 if splits else 1).rows_of([(image.height, image.width)])
    assert counted == (sum(map(written.count, "<*\n")),)


@settings(deadline=None)
@given(
    size=st.tuples(st.integers(1, 3000), st.integers(1, 3000)),
    bounds=st.sampled_from([(1, 12), (1, 6), (2, 4)]),
)
def test_tiles_of_the_nearest_shape(size: tuple[int, int], bounds: tuple[int, int]) -> None:
    least, most = bounds
    crops = ours("internvl", image_size=TILE, features_per_image=ROWS, min_tiles=least)
    crops = OwnProcessor("internvl", crops.vision.model_copy(update={"max_tiles": most + 1}))
    columns, rows = tiled.get_optimal_tiled_canvas(size, (TILE, TILE), least, most)

    tiles = columns * rows
    assert crops.rows_of([size]) == (ROWS * (tiles + (tiles > 1)),)


@pytest.mark.parametrize("family", ["internvl", "mistral3", "idefics3"])
def test_what_only_the_server_does_is_refused(family: str) -> None:
    """How closely an image is seen is its processor's business; videos are read by none."""
    processor = ours(family)
    assert FAMILIES[family].layout.low == FAMILIES[family].layout.high == "refused"
    with pytest.raises(RequestError, match="own processor decides"):
        processor.with_detail("low", 1)
    with pytest.raises(RequestError, match="no video"):
        processor.video_rows(2, (8, 8))
