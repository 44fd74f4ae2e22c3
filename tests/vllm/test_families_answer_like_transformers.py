"""Random checkpoints of each family behind the real vLLM and gateway: transformers' own tokens."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from support.families.expected import ANSWER, noise_image
from support.families.upstream_class import QUESTION, Upstream
from support.images import data_url, encode
from support.real_vllm import ROOT, real_vllm
from support.wide_checkpoints import PROCESSORS

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("family", PROCESSORS)
def test_tokens_are_equal(family: str, tmp_path: Path) -> None:
    """With one image, with two, and without, greedily in float32."""
    made = tmp_path / "made"
    command = [sys.executable, "-m", "support.wide_checkpoints", family, str(made)]
    subprocess.run(command, check=True, timeout=300, cwd=ROOT / "tests")
    upstream = Upstream(made)
    images = [noise_image(56, 42, seed=1), noise_image(30, 64, seed=2)]
    with real_vllm(made, tmp_path, limits={"max_input_len": 400, "max_seq_len": 480}) as served:
        for given in (images[:1], images, []):
            urls = [{"url": data_url(encode(one))} for one in given]
            parts = [{"type": "image_url", "image_url": url} for url in urls]
            content = [*parts, {"type": "text", "text": QUESTION}]
            body = {
                "model": "tiny",
                "messages": [{"role": "user", "content": content}],
                "temperature": 0,
                "max_tokens": ANSWER,
            }
            answer = httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=120).json()
            expected = upstream.answer(given)
            text = upstream.processor.decode(expected, skip_special_tokens=True)
            assert answer["choices"][0]["message"]["content"].split() == text.split()
