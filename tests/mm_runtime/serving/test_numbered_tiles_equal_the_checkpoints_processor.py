"""Numbered tiles: the prompts of upstream's own processor, for images of any size."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import Idefics3ImageProcessorPil, SmolVLMImageProcessorPil
from transformers.models.idefics3.processing_idefics3 import Idefics3Processor

from mm_api.families.idefics3 import MARKS
from mm_runtime.serving.preprocess.processors.numbered import NumberedProcessor
from support.families.expected import noise_image

TILE, LONGEST, ROWS = 28, 112, 4
SIZES = st.tuples(st.integers(1, 300), st.integers(1, 300)).filter(
    # Upstream fails on strips that have less than a pixel left.
    lambda size: max(size) < LONGEST * min(size)
)


def ours(*, splits: bool = True) -> NumberedProcessor:
    return NumberedProcessor(
        Image.Resampling.LANCZOS, TILE, LONGEST, ROWS, splits, "<image>", MARKS
    )


def upstreams_prompt(rows: int, columns: int) -> str:
    """Return what stands for an image of such a grid."""
    own = SimpleNamespace(
        fake_image_token="<fake_token_around_image>",
        image_token="<image>",
        global_image_tag="<global-img>",
        image_seq_len=ROWS,
    )
    written = Idefics3Processor.replace_image_token(own, {"rows": [[rows]], "cols": [[columns]]}, 0)
    assert isinstance(written, str)
    return written


@pytest.mark.parametrize("kind", [Idefics3ImageProcessorPil, SmolVLMImageProcessorPil])
@pytest.mark.parametrize("splits", [True, False], ids=["split", "view"])
@settings(deadline=None, max_examples=40)
@given(size=SIZES)
def test_prompts(kind: type, size: tuple[int, int], *, splits: bool) -> None:
    """Whatever its size, an image becomes as many tiles behind the same tokens."""
    image = noise_image(*size, seed=sum(size))
    found = kind(
        size={"longest_edge": LONGEST},
        max_image_size={"longest_edge": TILE},
        do_image_splitting=splits,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )([[image]], return_row_col_info=True, return_tensors="np")
    processor = ours(splits=splits)

    (frame,) = processor.frames_of([(image.height, image.width)])

    expected = upstreams_prompt(found["rows"][0][0], found["cols"][0][0])
    assert frame.text.replace("<image>", "<image>" * ROWS) == expected
    tiles = len(found["pixel_values"][0])
    assert processor.rows_of([(image.height, image.width)]) == (sum(frame.runs),) == (ROWS * tiles,)


@settings(deadline=None)
@given(size=SIZES)
def test_reduced_images(size: tuple[int, int]) -> None:
    """What the gateway sends becomes as many tiles as what it received."""
    image = noise_image(*size, seed=sum(size))
    processor = ours()
    reduced = processor.reduced(image, 1)

    assert max(reduced.size) <= max(LONGEST, *image.size)
    found, expected = (processor.frames_of([(one.height, one.width)]) for one in (reduced, image))
    assert found == expected
