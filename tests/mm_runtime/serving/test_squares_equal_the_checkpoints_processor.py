"""What the gateway resizes is what the preprocessing model would have made of the original."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mm_runtime.serving.preprocess.processors.resize import ImagePreprocessor

SIDE = 56
PROCESSOR = ImagePreprocessor(SIDE, SIDE, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def _noise(width: int, height: int) -> Image.Image:
    seed = np.random.default_rng(width * 1000 + height)
    return Image.fromarray(seed.integers(0, 256, (height, width, 3), dtype=np.uint8))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300))
def test_pixels_are_equal_at_every_size(width: int, height: int) -> None:
    """Byte for byte, up to the aspect ratio at which strips are cut first."""
    if max(width, height) > 16 * min(width, height):
        return
    image = _noise(width, height)
    expected = np.asarray(PROCESSOR.resize_and_crop(image))
    np.testing.assert_array_equal(np.asarray(PROCESSOR.square(image)), expected)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300))
def test_a_square_passes_the_preprocessing_model_unchanged(width: int, height: int) -> None:
    """The model behind resizes again; a square of its own size stays as it is."""
    square = PROCESSOR.square(_noise(width, height))
    again = PROCESSOR.resize_and_crop(square)
    np.testing.assert_array_equal(np.asarray(again), np.asarray(square))


def test_an_image_of_the_squares_size_is_passed_on() -> None:
    """Resizing and cutting would copy it three times, and change nothing."""
    image = _noise(SIDE, SIDE)
    assert PROCESSOR.square(image) is image
    cut = image.resize((SIDE, SIDE), PROCESSOR.resample).crop((0, 0, SIDE, SIDE))
    np.testing.assert_array_equal(np.asarray(image), np.asarray(cut))
