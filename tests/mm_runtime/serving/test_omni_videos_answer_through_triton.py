"""The real server and gateway before Qwen2.5-Omni: a question about a video is answered.

The answers are those of the same engine in this process, whose tokens are transformers' own
(tests/mm_runtime/reference_engine/test_omni_videos_equal_transformers.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from openai import BadRequestError, OpenAI
from PIL import Image

from mm_runtime.base.chat_template import Media, Turn
from mm_runtime.gateway.prompts.loading import load_chat_prompt
from support.build_plans import change_serving, serving_plan
from support.ensemble import Ensemble
from support.families.expected import ANSWER
from support.families.pipeline import Pipeline, build
from support.families.recordings import write
from support.images import data_url, encode
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import BuiltEngine

pytestmark = [pytest.mark.triton, pytest.mark.slow, pytest.mark.timeout(600)]

FRAMES = 4
QUESTION = "what is it ?"


@dataclass(frozen=True)
class Served:
    """A server and a gateway, and the same engine in this process."""

    pair: RealGateway
    openai: OpenAI
    pipeline: Pipeline

    @property
    def prompt(self) -> str:
        chat = load_chat_prompt(self.pipeline.directory, self.pipeline.preprocessor.codec)
        return chat.template.render([Turn("user", (Media.VIDEO, QUESTION))])

    def chat(self, *parts: dict[str, Any], **options: object) -> Any:
        """Send a question behind parts."""
        content: list[Any] = [*parts, {"type": "text", "text": QUESTION}]
        return self.openai.chat.completions.create(
            model=self.pair.model,
            messages=[{"role": "user", "content": content}],
            temperature=0,
            max_tokens=ANSWER,
            extra_body=options,
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A small and random checkpoint, of which videos are planned."""
    folder = tmp_path_factory.mktemp("videos")
    lengths = {"max_input_len": 512, "max_seq_len": 592}
    checkpoint = write("qwen2-5-omni", folder / "checkpoint")
    directory = build(checkpoint, folder / "store", lengths=lengths)
    serving = folder / "plan.json"
    serving.write_text(serving_plan(directory.manifest.fingerprint, bls_instances=1).to_json())
    change_serving(serving, gateway={"max_video_frames": FRAMES})
    pipeline = Pipeline.load(directory)
    with (
        run_pair(BuiltEngine(directory.root, serving), folder) as pair,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
    ):
        yield Served(pair, openai, pipeline)
    pipeline.loaded.engine.stop()


def frames_of(count: int) -> NDArray[np.uint8]:
    return np.random.default_rng(7).integers(0, 256, (count, 56, 84, 3), np.uint8)


def row(frames: NDArray[np.uint8]) -> dict[str, Any]:
    encoded = [data_url(encode(Image.fromarray(one))).partition(",")[2] for one in frames]
    url = "data:video/jpeg;base64," + ",".join(encoded)
    return {"type": "video_url", "video_url": {"url": url}}


def test_a_video_is_answered(served: Served) -> None:
    """By the gateway, whose usage counts its tokens, and by both of Triton's models, with times."""
    frames = frames_of(FRAMES)
    query, codec = served.pipeline.query, served.pipeline.preprocessor.codec
    expected = codec.decode(query(served.prompt, VIDEO_BYTES=frames[None]))

    answer = served.chat(row(frames))

    assert answer.choices[0].message.content == expected
    request = served.pipeline.request(served.prompt, VIDEO_BYTES=frames[None])
    assert answer.usage.prompt_tokens == len(request.ids)
    seconds = np.array([[40.0]], dtype=np.float32)
    timed = codec.decode(query(served.prompt, VIDEO_BYTES=frames[None], VIDEO_SECONDS=seconds))
    requested = {"video_bytes_input": frames[None], "video_seconds_input": seconds}
    for name in ("ensemble", "tensorrt_llm_bls"):
        with Ensemble(served.pair.triton_grpc, name) as chain:
            assert chain.query(served.prompt, max_tokens=ANSWER, **requested).text == timed


def test_what_is_not_taken_is_refused(served: Served) -> None:
    """Images beside a video, two videos, the audio in one; the next question is answered."""
    part = row(frames_of(2))
    image = {"type": "image_url", "image_url": {"url": data_url(encode(Image.new("RGB", (9, 9))))}}
    for parts in ((part, image), (part, part)):
        with pytest.raises(BadRequestError, match="either images or one video"):
            served.chat(*parts)
    with pytest.raises(BadRequestError, match="use_audio_in_video` does not act on videos"):
        served.chat(part, mm_processor_kwargs={"use_audio_in_video": True})
    assert served.chat(part).choices[0].message.content is not None
