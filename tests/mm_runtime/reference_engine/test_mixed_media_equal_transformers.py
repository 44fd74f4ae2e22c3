"""Images and videos of one request, in any order: the answer is that of transformers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mm_api.families import FAMILIES
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry.frame_intervals import reads_times
from support.families.expected import KINDS, Upstream, noise_image
from support.families.pipeline import Pipeline
from support.families.shared import shared_family
from support.representatives import others_are_slow

IMAGE, VIDEO = (
    "<|vision_start|><|image_pad|><|vision_end|>",
    "<|vision_start|><|video_pad|><|vision_end|>",
)
MIXING = sorted(name for name in KINDS if FAMILIES[name].layout.mixes_media)
SECONDS = np.array([[3.0, 40.0]], dtype=np.float32)


@pytest.fixture(scope="module", params=others_are_slow(MIXING, "qwen2-5-vl"))
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pipeline, Upstream]]:
    """One family's engine, built from a small random checkpoint, and the checkpoint itself."""
    shared = shared_family(tmp_path_factory, request.param)
    pipeline = Pipeline.load(shared.engine)
    yield pipeline, Upstream(request.param, shared.checkpoint)
    pipeline.loaded.engine.stop()


def _frames(count: int, width: int, height: int, seed: int) -> NDArray[np.uint8]:
    shown = [noise_image(width, height, seed=seed + at) for at in range(count)]
    return np.stack([np.asarray(one) for one in shown])


def _tensors(
    images: list[tuple[int, int]], clips: list[NDArray[np.uint8]]
) -> dict[str, NDArray[Any]]:
    """Return images of these sizes and videos as the gateway sends them."""
    found: dict[str, NDArray[Any]] = {}
    if images:
        pixels = [np.asarray(noise_image(*one, seed=50 + at)) for at, one in enumerate(images)]
        sizes = np.array([one.shape[:2] for one in pixels], dtype=np.int64)
        found["IMAGE_BYTES"] = _padded(pixels)
        found["PICTURE_SIZES"] = sizes[None]
    if clips:
        found["VIDEO_BYTES"] = _padded([frame for clip in clips for frame in clip])
        shapes = np.array([clip.shape[:3] for clip in clips], dtype=np.int32)
        found["VIDEO_SHAPES"] = shapes[None]
    return found


def _padded(given: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    high, wide = (max(one.shape[axis] for one in given) for axis in (0, 1))
    canvas = np.zeros((1, len(given), high, wide, 3), dtype=np.uint8)
    for place, one in zip(canvas[0], given, strict=True):
        place[: one.shape[0], : one.shape[1]] = one
    return canvas


def _prompt(order: str) -> str:
    marks = " then ".join({"i": IMAGE, "v": VIDEO}[one] for one in order)
    return f"<|im_start|>user\nwhat is {marks} ?<|im_end|>\n<|im_start|>assistant\n"


def _expected(
    pipeline: Pipeline, upstream: Upstream, order: str, prompt: str, **tensors: NDArray[Any]
) -> list[int]:
    """Return transformers' answer, media apart by their kind as its processor makes them."""
    prepared = pipeline.prepare(prompt, **tensors)
    config, vocabulary = upstream.model.config, pipeline.directory.facts.text.vocabulary_size
    grids = prepared["IMAGE_GRID_THW"].reshape(-1, 3)
    # Each medium is at its place: only videos have more than one pair of frames.
    assert [time > 1 for time in grids[:, 0].tolist()] == [one == "v" for one in order]
    patches = prepared["PIXEL_VALUES"].reshape(-1, prepared["PIXEL_VALUES"].shape[-1])
    parts = np.split(patches.astype(np.float32), np.cumsum(grids.prod(axis=1))[:-1])
    tokens = {"i": config.image_token_id, "v": config.video_token_id}
    rows = iter(
        [
            tokens[one]
            for one, n in zip(order, grids.prod(axis=1) // 4, strict=True)
            for _ in range(n)
        ]
    )
    ids = [next(rows) if one >= vocabulary else one for one in prepared["INPUT_ID"][0].tolist()]
    inputs: dict[str, Any] = {}
    for kind, pixels, grid in (
        ("i", "pixel_values", "image_grid_thw"),
        ("v", "pixel_values_videos", "video_grid_thw"),
    ):
        chosen = [at for at, one in enumerate(order) if one == kind]
        if chosen:
            inputs[pixels] = torch.from_numpy(np.concatenate([parts[at] for at in chosen]))
            inputs[grid] = torch.from_numpy(grids[chosen])
    if pipeline.directory.facts.vision.tokens_per_second is not None:  # type: ignore[union-attr]
        intervals = prepared["SECOND_PER_GRID_TS"].reshape(-1)
        videos = [at for at, one in enumerate(order) if one == "v"]
        inputs["second_per_grid_ts"] = torch.from_numpy(intervals[videos])
    kinds = {tokens["i"]: 1, tokens["v"]: 2}
    inputs["mm_token_type_ids"] = torch.tensor([[kinds.get(one, 0) for one in ids]])
    return upstream.answer(ids, **inputs)


@pytest.mark.parametrize("order", ["iv", "vi", "vv", "ivv", "vivi"])
def test_order(both: tuple[Pipeline, Upstream], order: str) -> None:
    """Features, positions and times are those of each medium at its place in the prompt."""
    pipeline, upstream = both
    clips = [_frames(4, 60, 60, seed=1), _frames(3, 30, 70, seed=9)][: order.count("v")]
    tensors = _tensors([(60, 40), (30, 58)][: order.count("i")], clips)
    if reads_times(pipeline.directory.facts):
        tensors["VIDEO_SECONDS"] = SECONDS[:, : order.count("v")]
    prompt = _prompt(order)

    expected = _expected(pipeline, upstream, order, prompt, **tensors)

    assert pipeline.query(prompt, **tensors) == expected


def test_places_matter(both: tuple[Pipeline, Upstream]) -> None:
    """The same media in another order are another request."""
    pipeline, _ = both
    tensors = _tensors([(60, 40)], [_frames(4, 60, 60, seed=1)])
    one, other = (pipeline.prepare(_prompt(order), **tensors) for order in ("iv", "vi"))
    assert not np.array_equal(one["PIXEL_VALUES"], other["PIXEL_VALUES"])
    assert not np.array_equal(
        one["OUT_PROMPT_TABLE_EXTRA_IDS"], other["OUT_PROMPT_TABLE_EXTRA_IDS"]
    )


def test_a_bare_question(both: tuple[Pipeline, Upstream]) -> None:
    """Without placeholders images stand first, then videos."""
    pipeline, _ = both
    tensors = _tensors([(60, 40)], [_frames(4, 60, 60, seed=1)])
    text = pipeline.preprocessor.codec.decode
    bare = pipeline.prepare("what is it ?", **tensors)["INPUT_ID"][0]
    vocabulary = pipeline.directory.facts.text.vocabulary_size
    assert "what is it ?" in text([one for one in bare.tolist() if one < vocabulary])
    rows = (pipeline.prepare(_prompt("iv"), **tensors)["INPUT_ID"] >= vocabulary).sum()
    assert (bare >= vocabulary).sum() == rows


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"VIDEO_SHAPES": np.array([[[9, 60, 60]]], np.int32)}, "9 frames, and video_bytes_input"),
        ({"VIDEO_SHAPES": np.array([[[4, 0, 60]]], np.int32)}, "frames, height and width"),
        (
            {"VIDEO_SHAPES": np.array([[[4, 60, 61]]], np.int32)},
            "video_shapes_input: .* at most 60 x 60",
        ),
        ({"VIDEO_SHAPES": np.array([[[2**31 - 1, 1, 1]]], np.int32)}, "2147483647 frames"),
        ({"VIDEO_SECONDS": np.ones((1, 3), np.float32)}, "3 values for 1 video"),
    ],
    ids=["frames", "empty", "larger", "huge", "seconds"],
)
def test_tensors_that_do_not_fit(
    both: tuple[Pipeline, Upstream], changed: dict[str, NDArray[Any]], said: str
) -> None:
    """What contradicts itself is refused, and nothing is read beyond the tensor."""
    pipeline, _ = both
    tensors = _tensors([(60, 40)], [_frames(4, 60, 60, seed=1)])
    with pytest.raises(RequestError, match=said):
        pipeline.prepare(_prompt("iv"), **tensors | changed)


def test_placeholders_of_others(both: tuple[Pipeline, Upstream]) -> None:
    """A prompt with a place too many of either kind."""
    pipeline, _ = both
    tensors = _tensors([(60, 40)], [_frames(4, 60, 60, seed=1)])
    for order in ("ivv", "ii", "v"):
        with pytest.raises(RequestError, match=r"1 image.s. and 1 video.s."):
            pipeline.prepare(_prompt(order), **tensors)


def test_more_features_than_planned(both: tuple[Pipeline, Upstream]) -> None:
    """Images and videos that fit alone are too many together: memory is planned for either."""
    pipeline, _ = both
    clips = [_frames(4, 84, 84, seed=1), _frames(4, 84, 84, seed=9)]
    tensors = _tensors([(100, 100), (100, 100)], clips)
    with pytest.raises(RequestError, match="features together, at most"):
        pipeline.prepare(_prompt("iivv"), **tensors)
