"""Images at several scales through the real server and gateway: answers are VILA's own code's."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from openai import BadRequestError

from support.cases import cases
from support.ensemble import EnsembleError
from support.families.expected import ANSWER, noise_image
from support.families.nvila import TOKENS, write_of_scales
from support.families.pipeline import build
from support.families.served import Family, image_part, serve_built
from support.families.shared import SharedFamily
from support.families.words import id_of
from support.nvila_upstream import Upstream

pytestmark = [pytest.mark.triton, pytest.mark.slow, pytest.mark.timeout(600)]

QUESTION = "what is in the image ?"
ENDS = {id_of("<|im_end|>", TOKENS)}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Family]:
    """A server and a gateway of a checkpoint whose images are seen at three scales."""
    folder = tmp_path_factory.mktemp("scales")
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    torch.manual_seed(11)
    write_of_scales(checkpoint)
    built = SharedFamily(checkpoint, build(checkpoint, folder / "store"))
    with serve_built("nvila", built, folder) as family:
        yield family


@cases(
    "sizes",
    {
        "text-only": [],
        "one": [(100, 61)],
        "tall": [(30, 190)],
        "two-of-different-shape": [(90, 40), (50, 70)],
    },
)
def test_chat(served: Family, sizes: list[tuple[int, int]]) -> None:
    """Text and features are those of the port; so are they over Triton alone."""
    images = [noise_image(*size, seed=seed) for seed, size in enumerate(sizes)]
    upstream = Upstream(served.checkpoint)
    tokens = upstream.answer([*images, QUESTION], ANSWER, ENDS)
    expected = served.pipeline.preprocessor.codec.decode(tokens)

    parts: list[dict[str, Any]] = [*map(image_part, images), {"type": "text", "text": QUESTION}]
    answer = served.chat(*parts)
    assert answer.choices[0].message.content == expected
    assert answer.usage.prompt_tokens == len(upstream.embedded([*images, QUESTION]))
    if len(images) == 1:
        pixels = np.asarray(images[0])[None, None]
        found = served.ensemble.query(QUESTION, image_bytes_input=pixels, max_tokens=ANSWER)
        assert found.text == expected


def test_details_and_tensors_that_cannot_be(served: Family) -> None:
    """Low detail would be another model's image, and tiles of clients have no shape."""
    image = image_part(noise_image(60, 50, seed=1))
    image["image_url"] = {**dict(image["image_url"]), "detail": "low"}  # type: ignore[call-overload]
    with pytest.raises(BadRequestError, match="this model sees an image as 9 tiles at the least"):
        served.chat(image, {"type": "text", "text": QUESTION})
    side = served.pipeline.preprocessor.image_processor.tile  # type: ignore[union-attr]
    tiles = np.zeros((1, 2, 3, side, side), np.float16)
    with pytest.raises(EnsembleError, match="send image_bytes_input or image_url_input"):
        served.ensemble.query(QUESTION, image_input=tiles, max_tokens=2)
