"""The real server and gateway and a family that reads recordings: answers are transformers'."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from openai import BadRequestError, OpenAI

from mm_runtime.base.chat_template import Media, Turn
from mm_runtime.gateway.media.audio import encode_wav
from mm_runtime.gateway.prompts.loading import load_chat_prompt
from support.build_plans import serving_plan
from support.cases import cases
from support.ensemble import Ensemble
from support.families.expected import ANSWER
from support.families.pipeline import Pipeline, build
from support.families.recordings import noise, write
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import BuiltEngine

pytestmark = [pytest.mark.slow, pytest.mark.triton, pytest.mark.timeout(600)]

QUESTION = "what is it ?"
Samples = NDArray[np.float32]


def encoded(samples: Samples) -> str:
    return base64.b64encode(encode_wav(samples)).decode()


def input_audio(samples: Samples, kind: str = "wav") -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": encoded(samples), "format": kind}}


def audio_url(samples: Samples) -> dict[str, Any]:
    return {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{encoded(samples)}"}}


@dataclass(frozen=True)
class Served:
    """A server and a gateway, and the same engine in this process."""

    pair: RealGateway
    openai: OpenAI
    pipeline: Pipeline

    def chat(self, *parts: dict[str, Any], **options: Any) -> Any:
        """Send a question behind parts."""
        content: list[Any] = [*parts, {"type": "text", "text": QUESTION}]
        return self.openai.chat.completions.create(
            model=self.pair.model,
            messages=[{"role": "user", "content": content}],
            temperature=0,
            max_tokens=ANSWER,
            **options,
        )

    def inputs(self, samples: Samples) -> dict[str, Any]:
        lengths = np.array([[len(samples)]], dtype=np.int32)
        return {"audio_samples_input": samples[None, None], "audio_lengths_input": lengths}

    @property
    def prompt(self) -> str:
        chat = load_chat_prompt(self.pipeline.directory, self.pipeline.preprocessor.codec)
        return chat.template.render([Turn("user", (Media.AUDIO, QUESTION))])

    def expected(self, samples: Samples) -> str:
        ids = self.pipeline.query(self.prompt, **self.inputs(samples))
        text: str = self.pipeline.preprocessor.codec.decode(ids)
        return text


@pytest.fixture(scope="module", params=["qwen2-audio", "qwen2-5-omni"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Families that read recordings, small and random."""
    folder = tmp_path_factory.mktemp("audio")
    directory = build(write(request.param, folder / "checkpoint"), folder / "store")
    serving = folder / "plan.json"
    plan = serving_plan(directory.manifest.fingerprint, bls_instances=1)
    serving.write_text(plan.to_json())
    pipeline = Pipeline.load(directory)
    with (
        run_pair(BuiltEngine(directory.root, serving), folder) as pair,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
    ):
        yield Served(pair, openai, pipeline)
    pipeline.loaded.engine.stop()


@pytest.mark.parametrize("part", [input_audio, audio_url], ids=["openais", "vllms"])
def test_chat(served: Served, part: Any) -> None:
    """A recording in either spelling, complete and streamed; its tokens are the prompt's."""
    samples = noise(2.0, seed=1)
    expected = served.expected(samples)

    answer = served.chat(part(samples))
    assert answer.choices[0].message.content == expected
    assert answer.usage.prompt_tokens == len(
        served.pipeline.request(served.prompt, **served.inputs(samples)).ids
    )
    streamed = served.chat(part(samples), stream=True)
    assert "".join(one.choices[0].delta.content or "" for one in streamed) == expected


def test_clients_of_triton(served: Served) -> None:
    """The ensemble and `tensorrt_llm_bls` take samples."""
    samples = noise(1.0, seed=2)
    expected = served.expected(samples)
    requested = served.inputs(samples) | {"max_tokens": ANSWER}

    for name in ("ensemble", "tensorrt_llm_bls"):
        with Ensemble(served.pair.triton_grpc, name) as chain:
            assert chain.query(served.prompt, **requested).text == expected


@cases(
    "parts words",
    {
        "too-long": ([input_audio(noise(31, seed=1))], "longer than 30 seconds"),
        "too-short": ([input_audio(noise(0.01, seed=1))], "961 at the least"),
        "format": ([input_audio(noise(1, seed=1), "mp3")], "`format` is 'mp3'"),
        "too-many": ([input_audio(noise(0.1, seed=1))] * 9, "9 recordings"),
        "too-much": ([input_audio(noise(9, seed=1))] * 2, "at most 400 tokens"),
        "a-mark": ([{"type": "text", "text": "<|AUDIO|>"}], "stands for an image or other"),
        "no-base64": (
            [{"type": "input_audio", "input_audio": {"data": "%%%", "format": "wav"}}],
            "base64",
        ),
        "a-video": (
            [{"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}],
            "takes no video",
        ),
    },
)
def test_bad_parts(served: Served, parts: list[dict[str, Any]], words: str) -> None:
    """Each is refused with the reason; a question about a recording is answered after it."""
    with pytest.raises(BadRequestError, match=words):
        served.chat(*parts)

    assert served.chat(input_audio(noise(0.5, seed=3))).choices[0].message.content is not None
