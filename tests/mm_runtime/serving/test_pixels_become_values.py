"""What a tower sees of an image are transformers' steps, bit for bit, looked up in a table."""

import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray
from PIL import Image

from mm_runtime.serving.preprocess.processors.pixel_values import pixel_values

CLIP = {
    "mean": (0.48145466, 0.4578275, 0.40821073),
    "std": (0.26862954, 0.26130258, 0.27577711),
    "rescale": 0.00392156862745098,
}
HALF = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "rescale": 1 / 255}


def stepwise(image: Image.Image, colours: dict[str, object]) -> NDArray[np.float32]:
    """Return what the steps make of all pixels, one step after the other in float32."""
    pixels = np.asarray(image, dtype=np.float32) * np.float32(colours["rescale"])
    mean, std = (np.asarray(colours[name], dtype=np.float32) for name in ("mean", "std"))
    return ((pixels - mean) / std).transpose(2, 0, 1)


@pytest.mark.parametrize("colours", [CLIP, HALF], ids=["clip", "siglip"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("size", [(336, 336), (1, 1), (61, 7)], ids=["square", "pixel", "odd"])
def test_bits_are_those_of_the_steps(
    colours: dict[str, object], dtype: DTypeLike, size: tuple[int, int]
) -> None:
    """Noise and every value of every channel, in both types."""
    noise = np.random.default_rng(1).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    every = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 256, 3)
    for pixels in (noise, every):
        image = Image.fromarray(pixels)
        found = pixel_values(image, **colours, dtype=dtype)
        assert (found.dtype, found.flags["C_CONTIGUOUS"]) == (np.dtype(dtype), True)
        assert stepwise(image, colours).astype(dtype).tobytes() == found.tobytes()


def test_checkpoints_do_not_share_a_table() -> None:
    """Two towers in one process each have their own constants."""
    white = Image.new("RGB", (2, 2), "white")
    assert pixel_values(white, **HALF).max() == 1
    assert pixel_values(white, **CLIP).max() > 1
