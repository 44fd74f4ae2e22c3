"""A disaggregated encoder computes what the real vLLM reads, whose own tower is one of zeros."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from mm_api.families import FAMILIES as RECORDS
from support.ended import kill_tree
from support.families.expected import noise_image
from support.families.served import image_part
from support.families.vllm import FAMILIES, Question, Upstream, answer_of, write_for_vllm
from support.real_vllm import real_vllm
from support.tiny_llava import CHECKPOINT, samples

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

DISAGGREGATED = [name for name, one in RECORDS.items() if one.vllm_features]
LIMITS = {"max_input_len": 448, "max_seq_len": 512}


@pytest.mark.parametrize("family", DISAGGREGATED)
def test_tokens_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    """Without an image, with one and with two, and so are the prompt's; in float32."""
    checkpoint = write_for_vllm(family, tmp_path / "checkpoint")
    with real_vllm(checkpoint, tmp_path, limits=LIMITS, disaggregated=True) as served:
        upstream, files = Upstream(family, tmp_path / "published"), FAMILIES[family]
        images = [noise_image(60, 41, files.seed), noise_image(33, 52, files.seed + 1)]
        for count in range(files.images + 1):
            question = Question(images[:count])
            assert answer_of(served.url, question) == upstream.answer(question)


def test_an_image_without_features_is_the_towers(tmp_path: Path) -> None:
    """An encoder that has gone is no error, and no other image's features are taken."""
    with real_vllm(CHECKPOINT, tmp_path, disaggregated=True) as served:

        def text(**fields: Any) -> str:
            content = [image_part(Image.open(one.image)), {"type": "text", "text": one.question}]
            body = {"model": "tiny", "messages": [{"role": "user", "content": content}]}
            url = f"{served.url}/v1/chat/completions"
            answer = httpx.post(url, json=body | {"temperature": 0} | fields, timeout=300)
            assert answer.status_code == 200, answer.text
            return str(answer.json()["choices"][0]["message"]["content"]).strip()

        for one in samples():
            assert text(cache_salt="a") == one.answer
        assert served.encoder is not None
        kill_tree(served.encoder.process)
        assert text(cache_salt="a") == one.answer
        assert text(cache_salt="b") != one.answer
