"""Images and videos in one chat, through the real server and gateway."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from openai import BadRequestError

from mm_runtime.gateway.media.frame_choice import FrameChoice
from mm_runtime.gateway.media.frames import Clip
from mm_runtime.gateway.media.video import VideoLimits, decode_video
from mm_runtime.serving.geometry.frame_intervals import reads_times
from support.ensemble import EnsembleError
from support.families.expected import ANSWER, noise_image
from support.families.served import Family, image_part, serve, video_part
from support.videos import video

pytestmark = [pytest.mark.slow, pytest.mark.triton, pytest.mark.timeout(600)]

MOST_FRAMES = 8
TEXT_PART: dict[str, object] = {"type": "text", "text": "what is in the image ?"}


@pytest.fixture(scope="module", params=["qwen2-vl", "qwen2-5-vl"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Family]:
    with serve(request.param, tmp_path_factory, frames=MOST_FRAMES) as family:
        yield family


def _decoded(content: bytes, frames: int) -> Clip:
    choice = FrameChoice(None, frames, None)
    return decode_video(content, VideoLimits(1 << 20, 1 << 20, frames, choice))


def _tensors(served: Family, image: Any, clips: list[Clip]) -> dict[str, Any]:
    """Return what a client of Triton sends of an image and of the frames of videos."""
    shown = [np.stack([np.asarray(one) for one in clip.frames]) for clip in clips]
    tensors = {
        "image_bytes_input": np.asarray(image)[None, None],
        "video_bytes_input": np.concatenate(shown)[None],
        "video_shapes_input": np.array([[one.shape[:3] for one in shown]], np.int32),
    }
    if reads_times(served.pipeline.directory.facts):
        tensors["video_seconds_input"] = np.array([[one.seconds for one in clips]], np.float32)
    return tensors


def _prompt(served: Family, *marks: str) -> str:
    return served.case.prompt.format(images="".join(marks))


def test_a_chat(served: Family) -> None:
    """Parts stand in the prompt as in the message; frames are the gateway's choice or the client's.

    The ensemble gets the same frames from a client of Triton.
    """
    image, first, second = noise_image(60, 40, seed=1), video(9), video(12)
    clips = [_decoded(first, 2), _decoded(second, 4)]
    tensors = _tensors(served, image, clips)
    mark, of_video = served.case.mark, served.case.video_mark
    prompt = _prompt(served, of_video, mark, of_video)
    expected = served.ensemble.query(prompt, max_tokens=ANSWER, **tensors).text

    parts = (video_part(first, num_frames=2), image_part(image), video_part(second), TEXT_PART)
    answer = served.chat(*parts)
    streamed = served.chat(*parts, stream=True)

    assert answer.choices[0].message.content == expected
    assert "".join(one.choices[0].delta.content or "" for one in streamed) == expected
    (ids,) = served.pipeline.prepare(
        prompt, **{_preprocessed(name): one for name, one in tensors.items()}
    )["INPUT_ID"]
    assert answer.usage.prompt_tokens == len(ids)


def _preprocessed(name: str) -> str:
    return name.removesuffix("_input").upper()


def test_the_image_matters(served: Family) -> None:
    """Media are not confused: with another image beside the same video the answer is another."""
    clip = video(9)
    answers = {
        served.chat(image_part(noise_image(60, 40, seed=seed)), video_part(clip), TEXT_PART)
        .choices[0]
        .message.content
        for seed in range(6)
    }
    assert len(answers) > 1


def test_too_much(served: Family) -> None:
    """What does not fit is refused by its part; the next request is answered."""
    with pytest.raises(BadRequestError, match="at most 4 frames of each of 2 videos") as frames:
        served.chat(video_part(video(9)), video_part(video(9), num_frames=5), TEXT_PART)
    assert frames.value.param == "messages[0].content[1].video_url.num_frames"
    large = image_part(noise_image(200, 200, seed=1))
    with pytest.raises(BadRequestError, match="tokens together; this model takes") as features:
        served.chat(large, large, *[video_part(video(9, width=200, height=200))] * 2, TEXT_PART)
    assert features.value.code == "context_length_exceeded"
    pixels = np.zeros((1, 2, 40, 40, 3), np.uint8)
    with pytest.raises(EnsembleError, match=r"1 image.s. and 1 video.s."):
        served.ensemble.query(
            _prompt(served, served.case.mark, served.case.mark),
            max_tokens=2,
            image_bytes_input=pixels[:, :1],
            video_bytes_input=pixels,
        )
    assert served.chat(TEXT_PART).choices[0].message.content is not None
