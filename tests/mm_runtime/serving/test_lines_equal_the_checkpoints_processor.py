"""Images in lines: the prompt that upstream's own processor writes, for images of any size."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers.models.pixtral import image_processing_pil_pixtral as with_pillow

from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.lines import LineProcessor

PATCH, MERGE, LONGEST = 14, 2, 1540

PROCESSOR = LineProcessor(
    resample=Image.Resampling.BICUBIC,
    patch=PATCH,
    merge=MERGE,
    longest=LONGEST,
    feature="[IMG]",
    line_end="[IMG_BREAK]",
    image_end="[IMG_END]",
)

UPSTREAM = SimpleNamespace(
    patch_size=PATCH,
    spatial_merge_size=MERGE,
    image_token="[IMG]",
    image_break_token="[IMG_BREAK]",
    image_end_token="[IMG_END]",
)
"""What its processor reads of itself."""


def upstreams_processor() -> Any:
    """Return the class, with the module beside it that needs no torchvision."""
    name = "transformers.models.pixtral.image_processing_pixtral"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, with_pillow)
        from transformers.models.pixtral.processing_pixtral import (  # noqa: PLC0415 (patched)
            PixtralProcessor,
        )
    return PixtralProcessor


def upstreams_prompt(size: tuple[int, int]) -> str:
    fitted = with_pillow.get_resize_output_image_size(
        SimpleNamespace(shape=(3, *size)),
        size=(LONGEST, LONGEST),
        patch_size=(PATCH * MERGE,) * 2,
        input_data_format="channels_first",
    )
    written = upstreams_processor().replace_image_token(UPSTREAM, {"image_sizes": [fitted]}, 0)
    assert isinstance(written, str)
    return written


@given(size=st.tuples(st.integers(28, 6000), st.integers(28, 6000)))
def test_prompts(size: tuple[int, int]) -> None:
    """A placeholder for each run stands for as many of upstream's as the run has rows."""
    (frame,) = PROCESSOR.frames_of([size])

    lines = frame.text.split("[IMG]")
    spelled = lines[0] + "".join(
        "[IMG]" * run + end for run, end in zip(frame.runs, lines[1:], strict=True)
    )

    assert spelled == upstreams_prompt(size)
    assert sum(frame.runs) == PROCESSOR.rows_of([size])[0]


@given(size=st.tuples(st.integers(28, 400), st.integers(28, 400)))
def test_a_reduced_image_is_reduced_no_further(size: tuple[int, int]) -> None:
    """What the gateway sends becomes the same lines as what it received."""
    height, width = size
    reduced = PROCESSOR.reduced(Image.new("RGB", (width, height)), 1)

    assert PROCESSOR.frames_of([(reduced.height, reduced.width)]) == PROCESSOR.frames_of([size])


def test_a_strip_of_nothing() -> None:
    """A strip whose shorter side would have no pixel is refused; upstream makes no lines of it."""
    with pytest.raises(RequestError, match="nothing is left"):
        PROCESSOR.rows_of([(1, 10_000)])
