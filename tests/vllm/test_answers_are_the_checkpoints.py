"""The real vLLM behind the real gateway answers each question as the checkpoint does."""

from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from support.images import data_url
from support.real_vllm import RealVllm, real_vllm
from support.tiny_llava import CHECKPOINT, FEATURES_PER_IMAGE, samples

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    with real_vllm(CHECKPOINT, tmp_path_factory.mktemp("vllm")) as found:
        yield found


def test_of_all_images(served: RealVllm) -> None:
    with OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        for one in samples():
            image = {"type": "image_url", "image_url": {"url": data_url(one.image.read_bytes())}}
            text = {"type": "text", "text": one.question}
            given: Any = {
                "model": "tiny",
                "messages": [{"role": "user", "content": [image, text]}],
                "temperature": 0,
            }
            complete = client.chat.completions.create(**given)
            chunks = [*client.chat.completions.create(stream=True, **given)]
            parts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
            found = (complete.choices[0].message.content.strip(), "".join(parts).strip())
            assert found == (one.answer, one.answer)
            words = len(one.answer.split())
            assert complete.usage.completion_tokens == words + 1, complete
            assert complete.usage.prompt_tokens > FEATURES_PER_IMAGE
