"""Qwen3-VL's videos: sizes, pixels and prompts of transformers' own processors."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import Qwen3VLProcessor, Qwen3VLVideoProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize

from mm_api.families import FAMILIES
from mm_runtime.gateway.media.frame_choice import EVENLY
from mm_runtime.gateway.media.frames import times_of
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.preprocess.processors.frame_sizes import FrameSizes
from mm_runtime.serving.preprocess.processors.grids import GridProcessor
from mm_runtime.serving.preprocess.processors.prepared import Colours
from mm_runtime.serving.prompts.moments import Clip, frame_times, is_timed, moments_of, timed
from support.families.expected import noise_image

UNIT = 32
STYLE = FAMILIES["qwen3-vl"].prompt
SIZES = FrameSizes(UNIT, least_pixels=4_096, most_pixels=100_000, most_of_frame=10**9)
GRID = GridProcessor(
    Colours((0.5,) * 3, (0.5,) * 3, 1 / 255, Image.Resampling.BICUBIC),
    patch=16,
    merge=2,
    least_pixels=1_024,
    most_pixels=100_000,
    frame_sizes=SIZES,
)


@settings(deadline=None, max_examples=200)
@given(
    frames=st.integers(2, 40),
    size=st.tuples(st.integers(1, 2000), st.integers(1, 2000)),
    least=st.integers(1, 400_000),
    most=st.integers(400_000, 30_000_000),
)
def test_sizes(frames: int, size: tuple[int, int], least: int, most: int) -> None:
    """Whatever bounds a checkpoint has; what transformers refuses is refused."""
    sizes = FrameSizes(UNIT, least_pixels=least, most_pixels=most, most_of_frame=10**9)
    bounds = {"min_pixels": least, "max_pixels": most}
    try:
        expected = smart_resize(frames, *size, factor=UNIT, **bounds)
    except ValueError:
        with pytest.raises(RequestError, match="more than 200 times the other"):
            sizes.of_each(frames, *size)
        return
    assert expected == sizes.of_each(frames, *size)


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("frames", [2, 3, 8])
def test_pixels(frames: int, *, capped: bool) -> None:
    """Those of the video processor, whose resizing rounds by itself: by one of 255 at the most."""
    clip = [noise_image(150, 90, seed=seed) for seed in range(frames)]
    upstream: Any = Qwen3VLVideoProcessor(
        size={"shortest_edge": 4_096, "longest_edge": 100_000},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        do_sample_frames=False,
        cap_pixels_per_frame=capped,
        max_video_tokens=4,
    )
    wanted = upstream(
        [np.stack([np.asarray(one) for one in clip]).transpose(0, 3, 1, 2)], return_tensors="np"
    )
    sizes = FrameSizes(UNIT, 4_096, 100_000, 10**9, capped=capped, frame_tokens=4)
    found = GridProcessor(
        GRID.colours, 16, 2, GRID.least_pixels, GRID.most_pixels, frame_sizes=sizes
    ).prepare_video(clip)

    assert wanted["video_grid_thw"][0].tolist() == found.tensors["IMAGE_GRID_THW"].tolist()
    np.testing.assert_allclose(
        found.tensors["PIXEL_VALUES"][0, 0], wanted["pixel_values_videos"], atol=2.1 / 255 * 2
    )
    assert sum(found.rows) == GRID.video_rows(frames, (90, 150)) or capped
    assert len(found.rows) == -(-frames // 2)


@pytest.mark.parametrize("kept", [2, 3, 8])
def test_prompts(kept: int) -> None:
    """Times of the frames that are kept of fifty, as the processor writes them."""
    seconds, stored = 7.3, 50
    places = EVENLY.places(stored, seconds, kept)
    own = SimpleNamespace(
        video_processor=SimpleNamespace(merge_size=2, temporal_patch_size=2),
        vision_start_token="<|vision_start|>",
        vision_end_token="<|vision_end|>",
        video_token="<|video_pad|>",
    )
    own._calculate_timestamps = lambda *args: Qwen3VLProcessor._calculate_timestamps(None, *args)
    video = SimpleNamespace(fps=stored / seconds, frames_indices=list(places))
    expected = Qwen3VLProcessor.replace_video_token(
        own, {"video_grid_thw": np.array([[-(-kept // 2), 2, 2]]), "video_metadata": [video]}, 0
    )
    assert STYLE is not None
    assert STYLE.moments is not None
    clip = Clip(times_of(places, stored, seconds))
    found = timed("a <|video_pad|> b", STYLE, [clip])

    assert f"a {expected} b" == found
    others = timed("<|video_pad|><|image_pad|><|video_pad|>", STYLE, [Clip([0.0, 9.0]), clip])
    first = STYLE.moments.each.format(seconds=4.5)
    assert f"{first}<|image_pad|>{expected}" == others
    assert is_timed(found, STYLE.moments)
    assert not is_timed("a <|video_pad|> b", STYLE.moments)


def test_frames_without_times() -> None:
    """They are read as 24 a second; of a length they are evenly spread over it."""
    assert moments_of(frame_times(3, None), 2) == [0.5 / 24, 2 / 24]
    assert moments_of(frame_times(4, 8.0), 2) == [1.0, 5.0]
    assert times_of([0, 1], 2, None) == ()


def test_frames_keep_their_size_within_a_bound() -> None:
    """How small each becomes is known when all are there; options of images do not act."""
    frame = noise_image(300, 200, seed=0)
    assert GRID.reduced_frame(frame) is frame
    assert GRID.reduced_frame(noise_image(1000, 500, seed=0)).size == (632, 316)
    assert not GRID.video_options


def test_the_plan_bounds_each_frame() -> None:
    sizes = FrameSizes(UNIT, least_pixels=10**6, most_pixels=10**8, most_of_frame=4 * UNIT**2)
    assert sizes.of_each(6, 500, 500) == (64, 64)
    assert GRID.video_rows(3, (64, 64)) == 8
