"""What the gateway resizes is what the preprocessing model would have made of the original."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mm_runtime.engine.preprocess import ImagePreprocessor

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


@pytest.mark.parametrize("size", [(1, 200_000), (200_000, 1)], ids=["tall", "wide"])
def test_a_strip_does_not_become_a_giant(size: tuple[int, int]) -> None:
    """One pixel wide and very long: resized whole it would take two gigabytes."""
    image = Image.new("RGB", size, (220, 20, 20))
    tracemalloc.start()
    square = PROCESSOR.square(image)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert square.size == (SIDE, SIDE)
    assert peak < 10_000_000
