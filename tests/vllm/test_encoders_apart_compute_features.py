"""An encoder apart computes what the real vLLM reads in its tower's place."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from support.images import data_url
from support.real_vllm import RealVllm, real_vllm
from support.tiny_llava import CHECKPOINT, FEATURES_PER_IMAGE, Sample, samples

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    with real_vllm(CHECKPOINT, tmp_path_factory.mktemp("apart"), apart=True) as found:
        yield found


def answer(served: RealVllm, *given: Sample, **fields: Any) -> httpx.Response:
    """Query about images, in the order of the samples."""
    images = [
        {"type": "image_url", "image_url": {"url": data_url(one.image.read_bytes())}}
        for one in given
    ]
    content = [*images, {"type": "text", "text": given[0].question}]
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0,
        **fields,
    }
    return httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=120)


def text(found: httpx.Response) -> str:
    assert found.status_code == 200, found.text
    return str(found.json()["choices"][0]["message"]["content"]).strip()


def test_answers_are_the_checkpoints(served: RealVllm) -> None:
    """Although the tower of this vLLM is one of zeros."""
    for one in samples():
        found = answer(served, one)
        assert text(found) == one.answer
        assert found.json()["usage"]["prompt_tokens"] > FEATURES_PER_IMAGE


def test_an_image_without_features_is_the_towers(served: RealVllm) -> None:
    """An encoder that has gone is no error, and no other image's features are taken."""
    one = samples()[0]
    assert served.encoder is not None
    assert text(answer(served, one, cache_salt="a")) == one.answer
    served.encoder.process.kill()
    assert text(answer(served, one, cache_salt="a")) == one.answer
    assert text(answer(served, one, cache_salt="b")) != one.answer
