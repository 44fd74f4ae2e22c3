"""The real server answers right, whichever way an image comes and however it is queried."""

import base64

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mm_runtime.serving.preprocess.processors.resize import ImagePreprocessor
from support.cases import cases
from support.ensemble import Ensemble
from support.pieces import are_tokens
from support.tiny_llava import CHECKPOINT, IMAGES, VOCABULARY, Sample, samples

pytestmark = pytest.mark.triton

RED_SQUARE = IMAGES / "red-square.png"
GREEN_TRIANGLE = IMAGES / "big-green-triangle.png"
QUESTION = "What is in the image?"


def _pixels(*names: str) -> NDArray[np.uint8]:
    return np.stack([np.asarray(Image.open(IMAGES / name)) for name in names])[np.newaxis]


def _data_url() -> str:
    return "data:image/png;base64," + base64.b64encode(RED_SQUARE.read_bytes()).decode()


@pytest.mark.parametrize("sample", [pytest.param(sample, id=sample.id) for sample in samples()])
def test_samples(ensemble: Ensemble, sample: Sample) -> None:
    """Every sample question gets its known answer."""
    pixels = _pixels(sample.image.name)
    assert sample.answer == ensemble.query(sample.question, image_bytes_input=pixels).text


def test_data_url(ensemble: Ensemble) -> None:
    """An image inside the request's text."""
    assert "a red square" == ensemble.query(QUESTION, image_url_input=_data_url()).text  # noqa: SIM300


def test_preprocessed_image(ensemble: Ensemble) -> None:
    """Pixel values that the client normalised itself, as upstream's client sends them for LLaVA."""
    preprocess = ImagePreprocessor.from_folder(CHECKPOINT)
    values = preprocess([Image.open(RED_SQUARE)])[np.newaxis].astype(np.float16)
    expected = ["a red square"] * 2
    complete = "USER: <image>\nWhat is in the image? ASSISTANT:"
    assert expected == [
        ensemble.query(text, image_input=values).text for text in (QUESTION, complete)
    ]


@cases(
    "question expected",
    {
        "first": ("What is in the first image?", "a red square"),
        "second": ("What is in the second image?", "a green triangle"),
    },
)
def test_two_images_keep_their_order(ensemble: Ensemble, question: str, expected: str) -> None:
    """Each image's features stand where its placeholder stands."""
    pixels = _pixels(RED_SQUARE.name, GREEN_TRIANGLE.name)
    assert expected == ensemble.query(question, image_bytes_input=pixels).text


def test_text_only(ensemble: Ensemble) -> None:
    """A request without an image is answered, and says so."""
    assert "i see no image" == ensemble.query(QUESTION).text  # noqa: SIM300


def test_stream_is_the_same_text_in_pieces(ensemble: Ensemble) -> None:
    """Each piece is one token or several, spaces included."""
    pixels = _pixels(RED_SQUARE.name)
    answer = ensemble.query(QUESTION, image_bytes_input=pixels, stream=True)
    assert are_tokens(answer.pieces, ("a", " red", " square"))


def test_the_entire_conversation_as_the_prompt(ensemble: Ensemble) -> None:
    """A prompt that starts with the begin token is taken as it is."""
    assert "i answer questions about shapes" == ensemble.query("<s>USER: Hello! ASSISTANT:").text  # noqa: SIM300


def test_stop_words_end_the_answer(ensemble: Ensemble) -> None:
    """The stop word and what follows it are not given out."""
    pixels = _pixels(RED_SQUARE.name)
    answer = ensemble.query(QUESTION, image_bytes_input=pixels, stop_words=["square"], stream=True)
    assert "a red" == answer.text  # noqa: SIM300


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


def test_seed_repeats_a_sampled_answer(ensemble: Ensemble) -> None:
    """Same seed, same answer; a hot temperature makes others differ."""
    requested = {"top_p": 1.0, "temperature": 20.0, "end_id": -1, "max_tokens": 12}
    first, second, third = (
        ensemble.query("Hello!", random_seed=seed, **requested).text for seed in (1, 1, 2)
    )
    assert first == second
    assert first != third
