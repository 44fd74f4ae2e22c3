"""Engines of TensorRT-LLM, served: the real tritonserver and gateway, stand-ins for NVIDIA's parts.

The backend `tensorrtllm` takes what upstream's template of its version has, and refuses all else;
`tensorrt` runs the vision engine. Answers are those of the Reference engine, whose features passed
through the engine's types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from openai import BadRequestError, OpenAI

from mm_api.families import FAMILIES
from support.audio_files import encode_audio, noise
from support.cases import cases
from support.ensemble import Ensemble
from support.families.expected import noise_image
from support.families.images import CASES
from support.families.pipeline import Pipeline
from support.images import data_url, encode
from support.model_configs import ON_TRITON, VERSIONS, versions_of
from support.native.engines import NativeEngine, native_engine_of
from support.native.expected import ANSWER, answer_ids
from support.native.image import make_image
from support.real_gateway import RealGateway, run_pair

pytestmark = [pytest.mark.triton, pytest.mark.timeout(600)]

OLDEST, NEWEST = VERSIONS[0], VERSIONS[-1]
QUICK = {("llava", NEWEST)}
"""In every run; a server is started for each pair."""

SERVED = [(family, version) for family in ON_TRITON for version in (versions_of(family)[0], NEWEST)]
TINY_LLAVAS = ("USER: {images}what is in the image ? ASSISTANT:", "<image>\n")
"""Prompt and mark of the trained model's template."""

QUESTION = "what is in the image ?"
TEXTS = ("translate to german : i see a red square", "what ?")


def _pairs(served: list[tuple[str, str]]) -> list[object]:
    return [
        pytest.param(one, id=f"{one[0]}-{one[1]}", marks=[] if one in QUICK else [pytest.mark.slow])
        for one in served
    ]


WITH_IMAGES = [one for one in SERVED if one[0] in CASES]
WITH_AUDIO = [one for one in SERVED if FAMILIES[one[0]].reads_audio]
WITH_TEXT = [one for one in SERVED if one[0] not in CASES and not FAMILIES[one[0]].reads_audio]


@dataclass(frozen=True)
class Served:
    """A running pod of one engine, and the Reference engine of its checkpoint in this process."""

    engine: NativeEngine
    pair: RealGateway
    ensemble: Ensemble
    openai: OpenAI
    pipeline: Pipeline

    def prompt(self, given: list[Any]) -> str:
        case = CASES[self.engine.family]
        template, mark = (case.prompt, case.mark) if case.prompt else TINY_LLAVAS
        prompt = template.format(images=mark * len(given))
        return prompt if given or prompt.startswith("<|im_start|>") else f"<s>{prompt}"

    def expected(self, text: str, **tensors: Any) -> str:
        ids = answer_ids(self.pipeline, text, self.engine.plan.engine.dtype, **tensors)
        return self.pipeline.preprocessor.codec.decode(ids)

    def chat(self, given: list[Any], **options: Any) -> Any:
        parts: list[Any] = [
            {"type": "image_url", "image_url": {"url": data_url(encode(one))}} for one in given
        ]
        return self.openai.chat.completions.create(
            model=self.pair.model,
            messages=[{"role": "user", "content": [*parts, {"type": "text", "text": QUESTION}]}],
            max_tokens=ANSWER,
            **{"temperature": 0, **options},
        )


@pytest.fixture(scope="module")
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A pod of one family and version; tests of it follow each other and share it."""
    family, version = request.param
    folder = tmp_path_factory.mktemp("native")
    image = make_image(folder / "image", version)
    engine = native_engine_of(family, folder, version)
    pipeline = Pipeline.load(engine.reference)
    with (
        run_pair(engine.built, folder, program=image.program) as pair,
        Ensemble(pair.triton_grpc) as ensemble,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
    ):
        yield Served(engine, pair, ensemble, openai, pipeline)
    pipeline.loaded.engine.stop()


@pytest.mark.parametrize("served", _pairs(WITH_IMAGES), indirect=True)
@cases("sizes", {"text": [], "image": [(100, 61)]})
def test_chat(served: Served, sizes: list[tuple[int, int]]) -> None:
    """A question with and without an image, in one piece and streamed, word for word."""
    given = [noise_image(*size, seed=1) for size in sizes]
    urls = [data_url(encode(one)).encode() for one in given]
    tensors = {"IMAGE_URL": np.array([urls], dtype=np.object_)} if urls else {}
    expected = served.expected(served.prompt(given), **tensors)
    answer = served.chat(given)
    stream = served.chat(given, stream=True)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert (expected, expected) == (answer.choices[0].message.content, streamed)
    assert " " in expected, "a stream that loses its spaces would not be noticed"


@pytest.mark.parametrize("served", _pairs(WITH_IMAGES), indirect=True)
def test_sampling(served: Served) -> None:
    """A sampled answer has a seed: the same one gives the same answer."""
    given = [noise_image(60, 60, seed=2)]
    answers = {
        served.chat(given, temperature=1.0, seed=7).choices[0].message.content for _ in range(2)
    }
    assert len(answers) == 1
    assert answers != {""}


@pytest.mark.parametrize("served", _pairs(WITH_IMAGES), indirect=True)
@cases(
    "name stream",
    {
        "ensemble": ("ensemble", False),
        "bls": ("tensorrt_llm_bls", False),
        "bls-streamed": ("tensorrt_llm_bls", True),
    },
)
def test_triton(served: Served, name: str, *, stream: bool) -> None:
    """Triton's own clients get the same answer, entire or as the pieces of a stream."""
    image = np.asarray(noise_image(100, 61, seed=1))[None, None]
    requested = {"image_bytes_input": image, "max_tokens": ANSWER, "stream": stream}
    with Ensemble(served.pair.triton_grpc, name) as model:
        answer = model.query(QUESTION, **requested)
    assert served.expected(QUESTION, IMAGE_BYTES=image) == answer.text
    assert stream or len(answer.pieces) == 1


@pytest.mark.parametrize("served", _pairs(WITH_TEXT), indirect=True)
def test_texts(served: Served) -> None:
    """Texts to an encoder-decoder: the gateway in one piece and streamed, and Triton itself."""
    for text in TEXTS:
        expected = served.expected(text)
        requested: dict[str, Any] = {
            "model": served.pair.model,
            "prompt": text,
            "max_tokens": ANSWER,
        }
        complete = served.openai.completions.create(**requested, temperature=0)
        stream = served.openai.completions.create(**requested, temperature=0, stream=True)
        streamed = "".join(chunk.choices[0].text for chunk in stream)
        reported = served.ensemble.query(text, max_tokens=ANSWER).text
        assert (expected, expected, expected) == (complete.choices[0].text, streamed, reported)


@pytest.mark.parametrize(
    "served", _pairs([one for one in WITH_TEXT if one[0] == "t5"]), indirect=True
)
def test_beams(served: Served) -> None:
    """Two beams through Triton: each has its own text, best first."""
    requested = {"beam_width": 2, "max_tokens": ANSWER}
    (reported,) = served.ensemble.query(TEXTS[0], return_log_probs=True, **requested).outputs
    first, second = reported["cum_log_probs"].reshape(-1).tolist()
    assert first >= second
    assert len({one.decode() for one in reported["text_output"].reshape(-1)}) == 2


@pytest.mark.parametrize("served", _pairs(WITH_AUDIO), indirect=True)
def test_audio(served: Served) -> None:
    """A recording is written down through the gateway."""
    # As a file of 16 bits has it.
    recording = (noise(0.6, seed=3) * 32_768).astype(np.int16) / np.float32(32_768)
    expected = served.expected("", WAV=recording[np.newaxis].astype(np.float32))
    answer = served.openai.audio.transcriptions.create(
        model=served.pair.model,
        file=("recording.wav", encode_audio(recording)),
        language="en",
        temperature=0,
        extra_body={"max_tokens": ANSWER},
    )
    assert expected == answer.text
    for changes, words in (
        ({"response_format": "srt"}, "TensorRT, or its checkpoint writes no time stamps"),
        ({"file": encode_audio(noise(1.5, seed=3))}, "longer than 1 seconds"),
    ):
        with pytest.raises(BadRequestError, match=words):
            served.openai.audio.transcriptions.create(
                **{"model": served.pair.model, "file": encode_audio(recording), **changes}
            )
