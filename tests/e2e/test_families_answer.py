"""Families beside LLaVA on an entire cluster: `kubectl apply`, and the OpenAI endpoint answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import BadRequestError

from support.families.expected import noise_image
from support.families.images import write
from support.images import data_url, encode
from support.installed import Installed, Space, model_space
from support.service_clients import client_of
from support.tiny_t5 import CHECKPOINT, sentences

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

READY_SECONDS = 500
"""Two builds and two pods that share two cores with the test."""


@pytest.fixture(name="space", scope="module")
def two_models(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    random = write("qwen2-vl", tmp_path_factory.mktemp("qwen") / "checkpoint")
    for path in random.rglob("*"):
        path.chmod(0o644)
    with model_space(installed, "families") as space:
        space.upload(CHECKPOINT, "t5")
        space.upload(random, "qwen")
        space.apply(space.model("translator", "t5"), space.model("images", "qwen"))
        for model in ("translator", "images"):
            space.wait_ready(model, READY_SECONDS)
        yield space


def test_a_trained_t5_translates(space: Space) -> None:
    """Known sentences, word for word, plain and streamed."""
    with client_of(space, "translator") as client:
        for sentence in sentences():
            requested = {"model": "translator", "prompt": sentence.prompt, "temperature": 0}
            complete = client.completions.create(**requested)
            stream = client.completions.create(**requested, stream=True)
            streamed = "".join(chunk.choices[0].text for chunk in stream)
            assert (sentence.german, sentence.german) == (complete.choices[0].text, streamed)
        with pytest.raises(BadRequestError, match="POST /v1/completions"):
            client.chat.completions.create(
                model="translator", messages=[{"role": "user", "content": "hello"}]
            )


def test_qwen2_vl_reads_images_of_any_shape(space: Space, tmp_path: Path) -> None:
    """Each image counts the features of its own rounded size: 8 and 6 here, then two frames."""
    del tmp_path
    images = [noise_image(100, 61, seed=1), noise_image(90, 60, seed=2)]
    counts = []
    with client_of(space, "images") as client:
        for given in ([], images[:1], images):
            parts = [
                {"type": "image_url", "image_url": {"url": data_url(encode(one))}} for one in given
            ]
            text = {"type": "text", "text": "what is in the image ?"}
            answer = client.chat.completions.create(
                model="images",
                messages=[{"role": "user", "content": [*parts, text]}],
                max_tokens=4,
                temperature=0,
            )
            assert answer.usage is not None
            assert answer.usage.completion_tokens > 0
            counts.append(answer.usage.prompt_tokens)
    # An image stands between two tokens of its own; 28 x 28 pixels are one feature.
    assert [counts[1] - counts[0], counts[2] - counts[1]] == [4 * 2 + 2, 3 * 2 + 2]
