"""SmolVLM 2's videos: pixels and prompts of transformers' own processors."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from num2words import num2words
from PIL import Image
from transformers import (
    AutoTokenizer,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)
from transformers.models.smolvlm import processing_smolvlm as upstream

from mm_api.families import FAMILIES
from mm_api.families.idefics3 import MARKS
from mm_runtime.gateway.media.frame_choice import EVENLY
from mm_runtime.gateway.media.frames import times_of
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.numbered import NumberedProcessor
from mm_runtime.serving.preprocess.processors.prepared import Colours
from mm_runtime.serving.prompts.moments import Clip, timed
from mm_runtime.serving.prompts.number_words import spelled_out
from support.cases import cases
from support.families import smolvlm
from support.families.expected import noise_image

TILE = 28
COLOURS = Colours((0.5,) * 3, (0.5,) * 3, 1 / 255, Image.Resampling.LANCZOS)


def processor(longest: int | None) -> NumberedProcessor:
    """Return the processor of tiles of 28 pixels."""
    return NumberedProcessor(
        COLOURS, TILE, 112, 4, splits=True, feature="<image>", marks=MARKS, longest_of_frame=longest
    )


@pytest.mark.parametrize("longest", [TILE, 84], ids=["a tile", "larger"])
@pytest.mark.parametrize("size", [(90, 61), (61, 90), (28, 28), (300, 20)], ids=str)
def test_pixels(size: tuple[int, int], longest: int) -> None:
    """Those of the video processor, which rounds by itself twice; so of what the gateway sends."""
    clip = [noise_image(*size, seed=seed) for seed in range(3)]
    frames = np.stack([np.asarray(one) for one in clip]).transpose(0, 3, 1, 2)
    processors: Any = SmolVLMVideoProcessor(
        size={"longest_edge": longest},
        max_image_size={"longest_edge": TILE},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    wanted = processors([frames], return_tensors="np")["pixel_values"][0]
    ours = processor(longest)
    found = ours.prepare_video(clip)
    reduced = ours.prepare_video([ours.reduced_frame(one) for one in clip])

    np.testing.assert_allclose(found.tensors["PIXEL_VALUES"], wanted, atol=3.1 / 255 * 2)
    if size[0] * size[1] <= 2 * longest**2 or longest == TILE:
        assert np.array_equal(*(one.tensors["PIXEL_VALUES"] for one in (found, reduced)))
    assert found.rows == (4,) * 3
    assert sum(found.rows) == ours.video_rows(3, size)


@cases(
    "kept stored seconds",
    {"seconds": (3, 50, 7.3), "an-hour": (21, 5000, 4000.4), "no-times": (2, 2, None)},
)
def test_prompts(kept: int, stored: int, seconds: float | None) -> None:
    """The number of frames, the length, and each frame behind its time."""
    places = EVENLY.places(stored, seconds, kept)
    rate = 24 if seconds is None else stored / seconds
    own = SimpleNamespace(
        image_seq_len=1,
        image_token="<image>",
        fake_image_token="<fake_token_around_image>",
        global_image_token="<global-img>",
    )
    times = [at / rate for at in places]
    video = SimpleNamespace(fps=rate, timestamps=times, duration=seconds)
    expected = upstream.SmolVLMProcessor.replace_video_token(
        own, {"pixel_values": np.zeros((1, kept)), "video_metadata": [video]}, 0
    )
    style = FAMILIES["smolvlm"].prompt
    assert style is not None
    found = timed("a <video> b", style, [Clip(times_of(places, stored, seconds) or times, seconds)])

    assert f"a {expected} b" == found


def test_numbers_are_spelled_out() -> None:
    """As num2words does; images do not hold it."""
    numbers = range(5000)

    assert [num2words(one) for one in numbers] == [spelled_out(one) for one in numbers]


def test_families_without_videos() -> None:
    """Idefics3 has the same images, and no video processor."""
    without, frame = processor(None), noise_image(40, 30, seed=0)
    for refused in (
        lambda: without.video_rows(2, (30, 40)),
        lambda: without.reduced_frame(frame),
        lambda: without.prepare_video([frame]),
    ):
        with pytest.raises(RequestError, match="takes images, no video"):
            refused()


def test_transformers_does_not_mix(tmp_path: Path) -> None:
    """Why images beside a video are refused: its processor counts both, and has pixels of one."""
    assert not FAMILIES["smolvlm"].layout.mixes_media
    smolvlm.write(tmp_path)
    sizes = {"longest_edge": TILE}
    sampling = {"video_size": sizes, "max_frames": 8, "fps": 1}
    own: Any = SmolVLMProcessor(
        SmolVLMImageProcessor.from_pretrained(tmp_path),
        AutoTokenizer.from_pretrained(tmp_path),
        SmolVLMVideoProcessor(size=sizes, video_sampling=sampling),
        image_seq_len=1,
    )
    frames = np.stack([np.asarray(noise_image(TILE, TILE, seed=seed)) for seed in range(3)])
    given = {"images": [noise_image(40, 30, seed=9)], "videos": [frames]}
    found = own(text="<image> <video>", do_sample_frames=False, return_tensors="pt", **given)
    places = int((found["input_ids"] == own.image_token_id).sum())
    assert found["pixel_values"].shape[1] == len(frames) < places
