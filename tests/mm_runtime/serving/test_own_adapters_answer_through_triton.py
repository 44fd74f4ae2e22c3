"""The real server and gateway and Phi-4-multimodal: requests of all kinds beside each other."""

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openai import OpenAI
from PIL import Image

from mm_runtime.gateway.media.audio import encode_wav
from support.build_plans import serving_plan
from support.families.expected import ANSWER, noise_image
from support.families.pipeline import Pipeline, build
from support.families.recordings import noise, write
from support.families.recordings_upstream import QUESTION, Samples, prompt_of, tensors_of
from support.families.served import image_part
from support.images import data_url, encode
from support.real_gateway import run_pair
from support.tiny_llava import BuiltEngine

pytestmark = [pytest.mark.triton, pytest.mark.slow, pytest.mark.timeout(600)]

KINDS = ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
"""Images and recordings of a request."""


def test_requests_beside_each_other(tmp_path: Path) -> None:
    """Each answer is that of its request alone in this process, whose tokens are transformers'."""
    directory = build(write("phi4-multimodal", tmp_path / "checkpoint"), tmp_path / "store")
    serving = tmp_path / "plan.json"
    serving.write_text(serving_plan(directory.manifest.fingerprint, bls_instances=1).to_json())
    pipeline = Pipeline.load(directory)
    images = [noise_image(100, 61, seed=1), noise_image(30, 40, seed=2)]
    recordings: list[Samples] = [noise(0.9, seed=3)]
    expected = [_alone(pipeline, images[:i], recordings[:r]) for i, r in KINDS]
    pipeline.loaded.engine.stop()
    with (
        run_pair(BuiltEngine(directory.root, serving), tmp_path) as pair,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
        ThreadPoolExecutor(2 * len(KINDS)) as pool,
    ):

        def answer_to(kind: tuple[int, int]) -> str | None:
            parts: list[Any] = [image_part(one) for one in images[: kind[0]]]
            parts += [_audio_part(one) for one in recordings[: kind[1]]]
            parts += [{"type": "text", "text": QUESTION}]
            answer = openai.chat.completions.create(
                model=pair.model,
                messages=[{"role": "user", "content": parts}],
                temperature=0,
                max_tokens=ANSWER,
            )
            return answer.choices[0].message.content

        found = list(pool.map(answer_to, KINDS * 2))

    assert found == expected * 2
    assert len(set(expected)) > 2


def _alone(pipeline: Pipeline, images: list[Image.Image], recordings: list[Samples]) -> str:
    tensors = tensors_of(recordings)
    if images:
        urls = [data_url(encode(one)).encode() for one in images]
        tensors["IMAGE_URL"] = np.array([urls], dtype=np.object_)
    prompt = prompt_of(pipeline, len(recordings), len(images))
    text: str = pipeline.preprocessor.codec.decode(pipeline.query(prompt, **tensors))
    return text


def _audio_part(samples: Samples) -> dict[str, Any]:
    data = base64.b64encode(encode_wav(samples)).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
