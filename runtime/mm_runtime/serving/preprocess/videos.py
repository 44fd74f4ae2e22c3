"""Videos of a request: their frames and lengths, and their places among images."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry.frame_intervals import (
    SECOND_PER_GRID_TS,
    SECONDS_PER_GRID,
    reads_times,
)
from mm_runtime.serving.preprocess.image_ids import image_id, sized_id, video_id
from mm_runtime.serving.preprocess.media import (
    LONGEST_VIDEO,
    NO_LENGTH,
    MediaLimits,
    clips_from_pixels,
)
from mm_runtime.serving.preprocess.processors.frame_sizes import FRAMES
from mm_runtime.serving.preprocess.processors.prepared import (
    ImageProcessor,
    Medium,
    Prepared,
)
from mm_runtime.serving.tensors import Tensors, single


@dataclass(frozen=True)
class Videos:
    """All videos of a request, in their order."""

    clips: list[list[NDArray[np.uint8]]]
    """Frames of each, uint8 [height, width, 3]."""

    seconds: list[float | None]
    """Length of each; None: it has no times."""


def read_videos(
    inputs: Tensors, limits: MediaLimits, facts: ModelFacts, *, most_frames: int
) -> Videos:
    """Return the videos of a request.

    `inputs`: `VIDEO_BYTES`, and `VIDEO_SHAPES` and `VIDEO_SECONDS` where there are such.

    Raises:
        RequestError: too many frames, shapes that do not fit together, a length that no video has,
            or one for a model that does not know time.
    """
    pixels = inputs["VIDEO_BYTES"]
    # Every frame is resized before its tokens are known, so their number is looked at first.
    if pixels.ndim > 1 and pixels.shape[1] > most_frames:
        raise RequestError(
            f"video_bytes_input: {pixels.shape[1]} frames, at most {most_frames} are allowed"
        )
    clips = clips_from_pixels(pixels, limits, single(inputs, "VIDEO_SHAPES"))
    return Videos(clips, _lengths(inputs, len(clips), facts))


def prepare_one(processor: ImageProcessor, videos: Videos) -> Prepared:
    """Return the tensors of a request's one video.

    Raises:
        RequestError: as `ImageProcessor.prepare_video`.
    """
    (frames,), (seconds,) = videos.clips, videos.seconds
    prepared = processor.prepare_video([*map(Image.fromarray, frames)])
    tensors = dict(prepared.tensors)
    if seconds is not None:
        tensors[SECOND_PER_GRID_TS] = np.array([FRAMES * seconds / len(frames)], dtype=np.float32)
    return replace(prepared, tensors=tensors, ids=(video_id(frames),))


def prepare_mixed(
    processor: ImageProcessor,
    kinds: Sequence[bool],
    images: Sequence[Image.Image],
    videos: Videos,
) -> Prepared:
    """Return the tensors of several media.

    `kinds`: whether each is a video, in the prompt's order. `images`: in their order.

    Raises:
        RequestError: as `ImageProcessor.prepare_mixed`.
    """
    shown, clips, lengths = iter(images), iter(videos.clips), iter(videos.seconds)
    media: list[Medium] = []
    named: list[tuple[bool, int]] = []
    intervals: list[float] = []
    for video in kinds:
        if video:
            frames, seconds = next(clips), next(lengths)
            media.append([*map(Image.fromarray, frames)])
            named.append((True, video_id(frames)))
            interval = SECONDS_PER_GRID if seconds is None else FRAMES * seconds / len(frames)
            intervals.append(interval)
        else:
            image = next(shown)
            media.append(image)
            named.append((False, image_id(image)))
            intervals.append(SECONDS_PER_GRID)
    prepared = processor.prepare_mixed(media)
    known = tuple(
        one if video else sized_id(one, rows)
        for (video, one), rows in zip(named, prepared.rows, strict=True)
    )
    tensors = {**prepared.tensors, SECOND_PER_GRID_TS: np.array(intervals, dtype=np.float32)}
    return replace(prepared, ids=known, tensors=tensors)


def check_rows(rows: Sequence[int], most: int) -> None:
    """Refuse more features than memory is planned for: those of images and videos add up.

    Raises:
        RequestError: they are more.
    """
    if sum(rows) > most:
        raise RequestError(
            f"images and videos are {sum(rows)} features together, at most {most} are planned for; "
            "send fewer or smaller ones, or fewer frames"
        )


def _lengths(inputs: Tensors, videos: int, facts: ModelFacts) -> list[float | None]:
    given = inputs.get("VIDEO_SECONDS")
    if given is None:
        return [None] * videos
    found = given.reshape(-1).tolist()
    if len(found) != videos:
        raise RequestError(f"video_seconds_input: got {len(found)} values for {videos} video(s)")
    if not reads_times(facts):
        raise RequestError(
            "video_seconds_input: this model reads the order of frames and not their times; "
            "leave it out"
        )
    for one in found:
        if not 0 < one <= LONGEST_VIDEO and not (videos > 1 and one == NO_LENGTH):
            raise RequestError(
                f"video_seconds_input is {one:g}; expected seconds, up to {LONGEST_VIDEO}"
            )
    return [one or None for one in found]
