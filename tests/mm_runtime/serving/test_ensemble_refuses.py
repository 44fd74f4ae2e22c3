"""Bad requests get a message, not a hang, and the next request is answered."""

import base64

import numpy as np
import pytest

from support.ensemble import Ensemble, EnsembleError
from support.tiny_llava import IMAGES, VOCABULARY

pytestmark = pytest.mark.triton

PNG = (IMAGES / "red-square.png").read_bytes()


def _url(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _pixels(images: int) -> object:
    return np.zeros((1, images, 60, 60, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        pytest.param("<image> <image>", {"image_bytes_input": _pixels(1)}, "2 <image>", id="count"),
        pytest.param("<image> what?", {}, "1 <image> placeholder", id="placeholder, no image"),
        pytest.param("x", {"image_bytes_input": _pixels(3)}, "at most 2 a request", id="too many"),
        pytest.param(
            "x", {"image_url_input": "http://127.0.0.1/b.png"}, "allowedHosts", id="http URL"
        ),
        pytest.param(
            "x", {"image_url_input": _url(PNG[:99])}, "damaged or truncated", id="truncated"
        ),
        pytest.param("x", {"image_url_input": _url(b"")}, "the image is empty", id="empty"),
        pytest.param(
            "x",
            {"image_input": np.zeros((1, 1, 3, 28, 28), np.float16)},
            "expected \\[images, 3, 56, 56\\]",
            id="wrong size",
        ),
        pytest.param("red " * 100, {}, "at most 96 are allowed", id="long prompt"),
        pytest.param(
            "x", {"image_input": np.zeros((1, 0, 3, 56, 56), np.float16)}, "no images", id="none"
        ),
        pytest.param("x", {"max_tokens": 0}, "max_tokens is 0", id="no tokens"),
        pytest.param("x", {"top_p": 2.0}, "top_p is 2.0", id="top_p"),
        pytest.param("x", {"beam_width": 2}, "1 to 1 are allowed", id="beams"),
        pytest.param(
            "x",
            {"end_id": VOCABULARY, "min_tokens": 2},
            f"end_id is {VOCABULARY}; a token of the model",
            id="end token past the vocabulary",
        ),
        pytest.param("x", {"pad_id": 10**6}, "pad_id is 1000000", id="pad token"),
    ],
)
def test_error_reaches_the_client(
    ensemble: Ensemble, text: str, values: dict[str, object], message: str
) -> None:
    """The message names what is wrong; the same stream then gets a right answer."""
    with pytest.raises(EnsembleError, match=message):
        ensemble.query(text, **values)
    assert "i answer questions about shapes" == ensemble.query("Hello!").text  # noqa: SIM300
