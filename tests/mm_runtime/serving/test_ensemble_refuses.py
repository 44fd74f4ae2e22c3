"""Bad requests get a message, not a hang, and the next request is answered."""

import base64

import numpy as np
import pytest

from support.cases import cases
from support.ensemble import Ensemble, EnsembleError
from support.tiny_llava import VOCABULARY

pytestmark = pytest.mark.triton


def _url(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _pixels(images: int) -> object:
    return np.zeros((1, images, 60, 60, 3), dtype=np.uint8)


@cases(
    "text values message",
    {
        "count": ("<image> <image>", {"image_bytes_input": _pixels(1)}, "2 <image>"),
        "http URL": ("x", {"image_url_input": "http://127.0.0.1/b.png"}, "allowedHosts"),
        "empty": ("x", {"image_url_input": _url(b"")}, "the image is empty"),
        "wrong size": (
            "x",
            {"image_input": np.zeros((1, 1, 3, 28, 28), np.float16)},
            "expected \\[images, 3, 56, 56\\]",
        ),
        "id of text": ("x", {"prompt_table_extra_id": 0}, "got 0, the id of text"),
        "none": ("x", {"image_input": np.zeros((1, 0, 3, 56, 56), np.float16)}, "no images"),
        "top_p": ("x", {"top_p": 2.0}, "top_p is 2.0"),
        "end token past the vocabulary": (
            "x",
            {"end_id": VOCABULARY, "min_tokens": 2},
            f"end_id is {VOCABULARY}; a token of the model",
        ),
        "pad token": ("x", {"pad_id": 10**6}, "pad_id is 1000000"),
    },
)
def test_error_reaches_the_client(
    ensemble: Ensemble, text: str, values: dict[str, object], message: str
) -> None:
    """The message names what is wrong; the same stream then gets a right answer."""
    with pytest.raises(EnsembleError, match=message):
        ensemble.query(text, **values)
    assert "i answer questions about shapes" == ensemble.query("Hello!").text  # noqa: SIM300
