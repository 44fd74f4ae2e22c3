"""Preprocessing without transformers gives what transformers' processor gives."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from transformers import (
    CLIPImageProcessorPil,
    ProcessorMixin,
)
from transformers.models.gemma3.processing_gemma3 import Gemma3Processor

from mm_api.families import FAMILIES
from mm_runtime.serving.preprocess.processors.squares import SquareProcessor
from support.cases import cases
from support.tiny_llava import CHECKPOINT


def _image(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(width * 1000 + height)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))


@cases(
    "width height",
    {
        "exact": (56, 56),
        "larger square": (224, 224),
        "landscape": (640, 427),
        "portrait": (333, 1000),
        "smaller": (20, 31),
        "one column too many": (57, 56),
        "one column": (1, 90),
    },
)
def test_equal_to_transformers(width: int, height: int) -> None:
    image = _image(width, height)
    reference = CLIPImageProcessorPil.from_pretrained(CHECKPOINT)
    expected = np.asarray(reference(image)["pixel_values"])
    actual = SquareProcessor.from_folder(CHECKPOINT).values_of([image])
    np.testing.assert_allclose(actual, expected, atol=2e-6)


def test_transparent_images_become_rgb() -> None:
    preprocess = SquareProcessor.from_folder(CHECKPOINT)
    grey = Image.new("L", (60, 60), 128)
    assert preprocess.values_of([grey, grey.convert("RGBA")]).shape == (2, 3, 56, 56)


def test_processor_config_alone_is_enough(tmp_path: object) -> None:
    """Newer checkpoints keep the image part inside processor_config.json."""
    from pathlib import Path  # noqa: PLC0415

    folder = Path(str(tmp_path))
    name = "processor_config.json"
    (folder / name).write_text((CHECKPOINT / name).read_text())
    expected = SquareProcessor.from_folder(CHECKPOINT)
    assert expected == SquareProcessor.from_folder(folder)


def test_gemma3(monkeypatch: pytest.MonkeyPatch) -> None:
    """A placeholder stands for all features; line breaks are part of the frame."""
    monkeypatch.setattr(ProcessorMixin, "__init__", lambda *_, **__: None)
    tokenizer = SimpleNamespace(
        boi_token_id=4,
        boi_token="<start_of_image>",
        image_token="<image_soft_token>",
        eoi_token="<end_of_image>",
    )
    upstream = Gemma3Processor(None, tokenizer, image_seq_length=1)
    style = FAMILIES["gemma3"].prompt
    assert style is not None

    assert style.framed == upstream.replace_image_token({"num_crops": [0]}, 0)
    assert style.placeholder == upstream.image_token
