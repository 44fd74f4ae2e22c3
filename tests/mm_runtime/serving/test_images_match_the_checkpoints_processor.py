"""Preprocessing without transformers gives what transformers' processor gives."""

import numpy as np
import pytest
from PIL import Image
from transformers import CLIPImageProcessorPil

from mm_runtime.serving.preprocess.processors.resize import ImagePreprocessor
from support.tiny_llava import CHECKPOINT


def _image(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(width * 1000 + height)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


@pytest.mark.parametrize(
    ("width", "height"),
    [
        pytest.param(56, 56, id="exact"),
        pytest.param(224, 224, id="larger square"),
        pytest.param(640, 427, id="landscape"),
        pytest.param(333, 1000, id="portrait"),
        pytest.param(20, 31, id="smaller"),
        pytest.param(57, 56, id="one column too many"),
        pytest.param(1, 90, id="one column"),
    ],
)
def test_equal_to_transformers(width: int, height: int) -> None:
    """Resize, crop and normalisation agree to float rounding on awkward sizes."""
    image = _image(width, height)
    reference = CLIPImageProcessorPil.from_pretrained(CHECKPOINT)
    expected = np.asarray(reference(image)["pixel_values"])
    actual = ImagePreprocessor.from_folder(CHECKPOINT)([image])
    np.testing.assert_allclose(actual, expected, atol=2e-6)


def test_transparent_images_become_rgb() -> None:
    """An image with an alpha channel or a palette is converted first."""
    preprocess = ImagePreprocessor.from_folder(CHECKPOINT)
    grey = Image.new("L", (60, 60), 128)
    assert preprocess([grey, grey.convert("RGBA")]).shape == (2, 3, 56, 56)


def test_processor_config_alone_is_enough(tmp_path: object) -> None:
    """Newer checkpoints keep the image part inside processor_config.json."""
    from pathlib import Path  # noqa: PLC0415

    folder = Path(str(tmp_path))
    name = "processor_config.json"
    (folder / name).write_text((CHECKPOINT / name).read_text())
    expected = ImagePreprocessor.from_folder(CHECKPOINT)
    assert expected == ImagePreprocessor.from_folder(folder)
