"""The real server answers right, whichever way an image comes and however it is queried."""

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.serving.preprocess.processors.resize import ImagePreprocessor
from support.ensemble import Ensemble
from support.tiny_llava import CHECKPOINT, IMAGES, VOCABULARY, Sample, samples

pytestmark = pytest.mark.triton

RED_SQUARE = IMAGES / "red-square.png"
QUESTION = "What is in the image?"


def _pixels(*names: str) -> NDArray[np.uint8]:
    return np.stack([np.asarray(Image.open(IMAGES / name)) for name in names])[np.newaxis]


@pytest.mark.parametrize(
    "sample", [pytest.param(sample, id=sample.id) for sample in samples()[::6]]
)
def test_samples(ensemble: Ensemble, sample: Sample) -> None:
    """Questions get their known answers in either layout; the gateway is sent all of them."""
    pixels = _pixels(sample.image.name)
    for layout in (pixels, np.moveaxis(pixels, -1, 2)):
        assert sample.answer == ensemble.query(sample.question, image_bytes_input=layout).text


def test_preprocessed_image(ensemble: Ensemble) -> None:
    """Pixel values that the client normalised itself, as upstream's client sends them for LLaVA."""
    preprocess = ImagePreprocessor.from_folder(CHECKPOINT)
    values = preprocess([Image.open(RED_SQUARE)])[np.newaxis].astype(np.float16)
    complete = "USER: <image>\nWhat is in the image? ASSISTANT:"
    for text in (QUESTION, complete):
        for layout in (values, np.moveaxis(values, 2, -1)):
            assert ensemble.query(text, image_input=layout).text == "a red square"


def test_log_probabilities_and_logits(ensemble: Ensemble) -> None:
    """They come when requested, with one entry a token."""
    pixels = _pixels(RED_SQUARE.name)
    outputs = ensemble.query(
        QUESTION,
        image_bytes_input=pixels,
        return_log_probs=True,
        return_context_logits=True,
        return_generation_logits=True,
    ).outputs[0]
    log_probs = outputs["output_log_probs"]
    assert log_probs.shape == (1, 1, 3)
    assert outputs["cum_log_probs"][0, 0] == pytest.approx(float(log_probs.sum()), abs=1e-5)
    assert outputs["generation_logits"].shape == (1, 1, 3, VOCABULARY)
    # <s> user : (16 features) what is in the image ? assistant :
    assert outputs["context_logits"].shape == (1, 27, VOCABULARY)
