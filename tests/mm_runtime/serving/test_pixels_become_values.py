"""What a tower sees of an image are transformers' steps, bit for bit, looked up in a table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike, NDArray
from PIL import Image

from mm_runtime.serving.preprocess.processors.prepared import Colours
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from mm_runtime.serving.tensors import all_finite

CLIP = Colours(
    (0.48145466, 0.4578275, 0.40821073),
    (0.26862954, 0.26130258, 0.27577711),
    0.00392156862745098,
    Image.Resampling.BICUBIC,
)
HALF = Colours((0.5,) * 3, (0.5,) * 3, 1 / 255, Image.Resampling.BICUBIC)


def stepwise(image: Image.Image, colours: Colours) -> NDArray[np.float32]:
    pixels = np.asarray(image, dtype=np.float32) * np.float32(colours.rescale)
    mean, std = (np.asarray(one, dtype=np.float32) for one in (colours.mean, colours.std))
    return ((pixels - mean) / std).transpose(2, 0, 1)


@pytest.mark.parametrize("colours", [CLIP, HALF], ids=["clip", "siglip"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("size", [(336, 336), (1, 1), (61, 7)], ids=["square", "pixel", "odd"])
def test_bits_are_those_of_the_steps(
    colours: Colours, dtype: DTypeLike, size: tuple[int, int]
) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    every = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 256, 3)
    for pixels in (noise, every):
        image = Image.fromarray(pixels)
        found = colours.normalised(image, dtype)
        assert (found.dtype, found.flags["C_CONTIGUOUS"]) == (np.dtype(dtype), True)
        assert stepwise(image, colours).astype(dtype).tobytes() == found.tobytes()


def test_checkpoints_do_not_share_a_table() -> None:
    white = Image.new("RGB", (2, 2), "white")
    assert HALF.normalised(white).max() == 1
    assert CLIP.normalised(white).max() > 1


SIDE = 56
PROCESSOR = SquareProcessor(SIDE, SIDE, HALF)


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
    np.testing.assert_array_equal(np.asarray(PROCESSOR.reduced(image)), expected)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300))
def test_a_square_passes_the_preprocessing_model_unchanged(width: int, height: int) -> None:
    """The model behind resizes again; a square of its own size stays as it is."""
    square = PROCESSOR.reduced(_noise(width, height))
    again = PROCESSOR.resize_and_crop(square)
    np.testing.assert_array_equal(np.asarray(again), np.asarray(square))


def test_an_image_of_the_squares_size_is_passed_on() -> None:
    """Resizing and cutting would copy it three times, and change nothing."""
    image = _noise(SIDE, SIDE)
    assert PROCESSOR.reduced(image) is image
    cut = image.resize((SIDE, SIDE), PROCESSOR.colours.resample).crop((0, 0, SIDE, SIDE))
    np.testing.assert_array_equal(np.asarray(image), np.asarray(cut))


LARGEST = np.finfo(np.float16).max


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_found(dtype: type, value: float) -> None:
    values = np.zeros((2, 3, 4), dtype)[:, :, ::2]
    values[1, 2, 1] = value

    assert not all_finite(values)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8])
def test_largest_and_smallest_values_are_finite(dtype: type) -> None:
    finite = np.array([0.0, 1.0, 200.0]).astype(dtype)
    assert all_finite(finite)
    assert all_finite(finite[:0])
    if np.issubdtype(dtype, np.floating):
        assert all_finite(np.array([LARGEST, -LARGEST, 6e-8, -0.0], dtype))


def test_each_pattern_of_half_a_word_is_judged_as_numpy_does() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert [all_finite(one) for one in patterns[:, None]] == np.isfinite(patterns).tolist()
