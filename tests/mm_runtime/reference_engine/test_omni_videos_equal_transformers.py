"""Qwen2.5-Omni reads videos as transformers' class does: token for token, positions in seconds.

transformers gets the same frames through the checkpoint's own processor and chat template, and how
many of them are a second.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mm_api.families import FAMILIES
from mm_runtime.base.chat_template import Media, Turn
from mm_runtime.gateway.prompts.loading import load_chat_prompt
from mm_runtime.serving.errors import RequestError
from support.families.pipeline import Pipeline, build
from support.families.recordings import RATE, noise, write
from support.families.recordings_upstream import QUESTION, Samples, Upstream, tensors_of

FAMILY = "qwen2-5-omni"
Frames = NDArray[np.uint8]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pipeline, Upstream]]:
    """The engine, built from a small random checkpoint, and the checkpoint itself."""
    folder = tmp_path_factory.mktemp("family")
    checkpoint = write(FAMILY, folder / "checkpoint")
    lengths = {"max_input_len": 1024, "max_seq_len": 1104}
    pipeline = Pipeline.load(build(checkpoint, folder / "store", lengths=lengths))
    yield pipeline, Upstream(FAMILY, checkpoint)
    pipeline.loaded.engine.stop()


def frames_of(count: int, size: tuple[int, int] = (84, 56), seed: int = 1) -> Frames:
    """Return random frames of a width and height."""
    shape = (count, *size[::-1], 3)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def given(
    upstream: Upstream, frames: Frames, seconds: float | None, recordings: list[Samples]
) -> Any:
    """Return what transformers' processor makes of a question about a video and recordings."""
    parts = [{"type": "video"}, *[{"type": "audio"}] * len(recordings)]
    messages = [{"role": "user", "content": [*parts, {"type": "text", "text": QUESTION}]}]
    text = upstream.processor.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=False
    )
    options: dict[str, Any] = {"videos": [frames]}
    options |= {} if seconds is None else {"fps": len(frames) / seconds}
    options |= {"audio": recordings, "sampling_rate": RATE} if recordings else {}
    return upstream.processor(text=text, return_tensors="pt", **options)


def prompt_of(pipeline: Pipeline, recordings: int = 0) -> str:
    """Return the same prompt as the gateway writes it."""
    chat = load_chat_prompt(pipeline.directory, pipeline.preprocessor.codec)
    return chat.template.render(
        [Turn("user", (Media.VIDEO, *[Media.AUDIO] * recordings, QUESTION))]
    )


def tensors(
    frames: Frames, seconds: float | None, recordings: list[Samples] | None = None
) -> dict[str, Any]:
    """Return the inputs of Triton's clients."""
    found = tensors_of(recordings or []) | {"VIDEO_BYTES": frames[None]}
    if seconds is not None:
        found["VIDEO_SECONDS"] = np.array([[seconds]], dtype=np.float32)
    return found


@pytest.mark.parametrize("seconds", [None, 2.0, 9.0])
@pytest.mark.parametrize("count", [1, 4, 5])
def test_a_video(both: tuple[Pipeline, Upstream], count: int, seconds: float | None) -> None:
    """Whatever its length; an odd last frame counts twice, and without times two are a second."""
    pipeline, upstream = both
    frames = frames_of(count)
    expected = given(upstream, frames, seconds, [])

    found = pipeline.query(prompt_of(pipeline), **tensors(frames, seconds))

    assert upstream.generated(expected) == found


@pytest.mark.parametrize("size", [(84, 56), (1000, 700), (200, 800)], ids=str)
def test_rows_are_counted(both: tuple[Pipeline, Upstream], size: tuple[int, int]) -> None:
    """The gateway's count of a video's tokens is the processor's own, within the plan's most."""
    pipeline, upstream = both
    vision = pipeline.directory.facts.vision
    family = FAMILIES[FAMILY]
    assert vision is not None
    assert family.layout.rows_of_video is not None
    assert family.layout.video_features is not None
    frames = frames_of(3, size)
    ids = given(upstream, frames, None, [])["input_ids"]
    rows = int((ids == upstream.processor.video_token_id).sum())

    assert family.layout.rows_of_video(vision, 3, *frames.shape[1:3]) == rows
    assert rows <= family.layout.video_features(vision, 3)


def test_a_recording_beside_it(both: tuple[Pipeline, Upstream]) -> None:
    """A part of its own; the audio in the file of a video is not read."""
    pipeline, upstream = both
    frames, recordings = frames_of(4), [noise(0.8, seed=5)]
    expected = upstream.generated(given(upstream, frames, 3.0, recordings))

    found = pipeline.query(prompt_of(pipeline, 1), **tensors(frames, 3.0, recordings))

    assert expected == found


def test_times_and_frames_matter(both: tuple[Pipeline, Upstream]) -> None:
    """Other frames or another length, another answer: what is compared above depends on them."""
    pipeline, _ = both
    prompt = prompt_of(pipeline)
    by_frames = {
        tuple(pipeline.query(prompt, **tensors(frames_of(4, seed=seed), 2.0))) for seed in range(6)
    }
    by_length = {
        tuple(pipeline.query(prompt, **tensors(frames_of(4, seed=3), seconds)))
        for seconds in (1.0, 4.0, 16.0, 60.0, 240.0)
    }

    assert len(by_frames) > 1
    assert len(by_length) > 1


def test_what_does_not_fit_is_refused(both: tuple[Pipeline, Upstream]) -> None:
    """Marks without a video, images beside one, more frames than a prompt has room for."""
    pipeline, _ = both
    prompt, image = prompt_of(pipeline), {"IMAGE_BYTES": frames_of(1)[None]}
    for text, given_tensors, words in (
        (prompt, {}, "1 <|VIDEO|> placeholder"),
        (prompt, image, "placeholder"),
        (prompt, image | tensors(frames_of(2), None), "images or one video"),
        (prompt + "<|VIDEO|>", tensors(frames_of(2), None), "placeholder"),
        (prompt, tensors(frames_of(2100), None), "2100 frames, at most 2048"),
    ):
        with pytest.raises(RequestError) as error:
            pipeline.query(text, **given_tensors)
        assert words in str(error.value)
