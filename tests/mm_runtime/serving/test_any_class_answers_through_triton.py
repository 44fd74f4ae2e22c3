"""The real server and gateway with classes that have no record: answers are transformers' own."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from openai import BadRequestError, OpenAI

from mm_runtime.gateway.media.frame_choice import FrameChoice
from mm_runtime.gateway.media.frames import Clip
from mm_runtime.gateway.media.video import VideoLimits, decode_video
from mm_runtime.serving.geometry.frame_intervals import reads_times
from support.build_plans import serving_plan
from support.ensemble import Ensemble, EnsembleError
from support.families.expected import ANSWER, noise_image
from support.families.own_classes import write
from support.families.pipeline import Pipeline, build
from support.families.served import Family, image_part, serve, video_part
from support.real_gateway import RealGateway, run_pair
from support.tiny_llava import BuiltEngine
from support.videos import video

pytestmark = [pytest.mark.slow, pytest.mark.triton, pytest.mark.timeout(600)]

QUESTION = "what is in the image ?"


@dataclass(frozen=True)
class Served:
    """A server and a gateway, and the same engine in this process."""

    pair: RealGateway
    openai: OpenAI
    ensemble: Ensemble
    pipeline: Pipeline

    def chat(self, images: list[Any], **options: Any) -> Any:
        content = [*map(image_part, images), {"type": "text", "text": QUESTION}]
        return self.openai.chat.completions.create(
            model=self.pair.model,
            messages=[{"role": "user", "content": content}],
            temperature=0,
            max_tokens=ANSWER,
            **options,
        )

    def expected(self, image: Any) -> str:
        ids = self.pipeline.query(QUESTION, IMAGE_BYTES=np.asarray(image)[None, None])
        text: str = self.pipeline.preprocessor.codec.decode(ids)
        return text


@pytest.fixture(scope="module", params=["aya_vision", "paligemma"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A class with a chat template, and one without."""
    folder = tmp_path_factory.mktemp("class")
    directory = build(write(request.param, folder / "checkpoint"), folder / "store")
    serving = folder / "plan.json"
    plan = serving_plan(directory.manifest.fingerprint, bls_instances=1)
    serving.write_text(plan.to_json())
    pipeline = Pipeline.load(directory)
    with (
        run_pair(BuiltEngine(directory.root, serving), folder) as pair,
        Ensemble(pair.triton_grpc) as ensemble,
        OpenAI(base_url=f"{pair.url}/v1", api_key="none", max_retries=0, timeout=60) as openai,
    ):
        yield Served(pair, openai, ensemble, pipeline)
    pipeline.loaded.engine.stop()


@pytest.mark.parametrize("size", [(100, 61), (37, 150)], ids=str)
def test_chat(served: Served, size: tuple[int, int]) -> None:
    """Images of two shapes, complete and streamed."""
    image = noise_image(*size, seed=1)
    expected = served.expected(image)

    assert served.chat([image]).choices[0].message.content == expected
    streamed = served.chat([image], stream=True)
    assert "".join(one.choices[0].delta.content or "" for one in streamed) == expected


def test_clients_of_triton(served: Served) -> None:
    """The ensemble and `tensorrt_llm_bls` take the same inputs as other families'."""
    image = noise_image(60, 60, seed=2)
    pixels = np.asarray(image)[None, None]
    expected = served.expected(image)
    requested = {"image_bytes_input": pixels, "max_tokens": ANSWER}

    assert served.ensemble.query(QUESTION, **requested).text == expected
    with Ensemble(served.pair.triton_grpc, "tensorrt_llm_bls") as chain:
        assert chain.query(QUESTION, **requested).text == expected


def test_details_are_the_processors(served: Served) -> None:
    part = image_part(noise_image(60, 60, seed=2))
    part["image_url"]["detail"] = "low"  # type: ignore[index]

    with pytest.raises(BadRequestError, match="expected `auto`"):
        served.openai.chat.completions.create(
            model=served.pair.model,
            messages=[{"role": "user", "content": [part]}],  # type: ignore[list-item]
        )


MOST_FRAMES = 8
TEXT_PART: dict[str, object] = {"type": "text", "text": "what is in the image ?"}


@pytest.fixture(scope="module", params=["qwen2-vl", "qwen2-5-vl"])
def mixed_served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Family]:
    with serve(request.param, tmp_path_factory, frames=MOST_FRAMES) as family:
        yield family


def _decoded(content: bytes, frames: int) -> Clip:
    choice = FrameChoice(None, frames, None)
    return decode_video(content, VideoLimits(1 << 20, 1 << 20, frames, choice))


def _tensors(mixed_served: Family, image: Any, clips: list[Clip]) -> dict[str, Any]:
    """Return what a client of Triton sends of an image and of the frames of videos."""
    shown = [np.stack([np.asarray(one) for one in clip.frames]) for clip in clips]
    tensors = {
        "image_bytes_input": np.asarray(image)[None, None],
        "video_bytes_input": np.concatenate(shown)[None],
        "video_shapes_input": np.array([[one.shape[:3] for one in shown]], np.int32),
    }
    if reads_times(mixed_served.pipeline.directory.facts):
        tensors["video_seconds_input"] = np.array([[one.seconds for one in clips]], np.float32)
    return tensors


def _prompt(mixed_served: Family, *marks: str) -> str:
    return mixed_served.case.prompt.format(images="".join(marks))


def test_a_chat(mixed_served: Family) -> None:
    """Parts stand in the prompt as in the message; frames are the gateway's choice or the client's.

    The ensemble gets the same frames from a client of Triton.
    """
    image, first, second = noise_image(60, 40, seed=1), video(9), video(12)
    clips = [_decoded(first, 2), _decoded(second, 4)]
    tensors = _tensors(mixed_served, image, clips)
    mark, of_video = mixed_served.case.mark, mixed_served.case.video_mark
    prompt = _prompt(mixed_served, of_video, mark, of_video)
    expected = mixed_served.ensemble.query(prompt, max_tokens=ANSWER, **tensors).text

    parts = (video_part(first, num_frames=2), image_part(image), video_part(second), TEXT_PART)
    answer = mixed_served.chat(*parts)
    streamed = mixed_served.chat(*parts, stream=True)

    assert answer.choices[0].message.content == expected
    assert "".join(one.choices[0].delta.content or "" for one in streamed) == expected
    (ids,) = mixed_served.pipeline.prepare(
        prompt, **{_preprocessed(name): one for name, one in tensors.items()}
    )["INPUT_ID"]
    assert answer.usage.prompt_tokens == len(ids)


def _preprocessed(name: str) -> str:
    return name.removesuffix("_input").upper()


def test_the_image_matters(mixed_served: Family) -> None:
    """Media are not confused: with another image beside the same video the answer is another."""
    clip = video(9)
    answers = {
        mixed_served.chat(image_part(noise_image(60, 40, seed=seed)), video_part(clip), TEXT_PART)
        .choices[0]
        .message.content
        for seed in range(6)
    }
    assert len(answers) > 1


def test_too_much(mixed_served: Family) -> None:
    """What does not fit is refused by its part; the next request is answered."""
    with pytest.raises(BadRequestError, match="at most 4 frames of each of 2 videos") as frames:
        mixed_served.chat(video_part(video(9)), video_part(video(9), num_frames=5), TEXT_PART)
    assert frames.value.param == "messages[0].content[1].video_url.num_frames"
    large = image_part(noise_image(200, 200, seed=1))
    with pytest.raises(BadRequestError, match="tokens together; this model takes") as features:
        mixed_served.chat(
            large, large, *[video_part(video(9, width=200, height=200))] * 2, TEXT_PART
        )
    assert features.value.code == "context_length_exceeded"
    pixels = np.zeros((1, 2, 40, 40, 3), np.uint8)
    with pytest.raises(EnsembleError, match=r"1 image.s. and 1 video.s."):
        mixed_served.ensemble.query(
            _prompt(mixed_served, mixed_served.case.mark, mixed_served.case.mark),
            max_tokens=2,
            image_bytes_input=pixels[:, :1],
            video_bytes_input=pixels,
        )
    assert mixed_served.chat(TEXT_PART).choices[0].message.content is not None
