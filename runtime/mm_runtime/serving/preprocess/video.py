"""The video of a request: its frames and length."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from mm_api.documents.model_facts import ModelFacts
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.geometry.rotation import SECOND_PER_GRID_TS, reads_times
from mm_runtime.serving.preprocess.image_ids import video_id
from mm_runtime.serving.preprocess.media import MediaLimits, images_from_pixels
from mm_runtime.serving.preprocess.processors.frame_sizes import FRAMES
from mm_runtime.serving.preprocess.processors.prepared import ImageProcessor, Prepared
from mm_runtime.serving.tensors import Tensors, scalar

LONGEST_VIDEO = 86_400
"""Seconds: a day."""


def prepare_video(
    processor: ImageProcessor,
    inputs: Tensors,
    limits: MediaLimits,
    facts: ModelFacts,
    *,
    most_frames: int,
) -> Prepared:
    """Return the tensors of a request's video.

    `inputs`: `VIDEO_BYTES` uint8 [1, frames, height, width, 3], and `VIDEO_SECONDS` where there is
    such.

    Raises:
        RequestError: too many frames, a length that no video has, or one for a model that does not
            know time.
    """
    pixels = inputs["VIDEO_BYTES"]
    # Every frame is resized before its tokens are known, so their number is looked at first.
    if pixels.ndim > 1 and pixels.shape[1] > most_frames:
        raise RequestError(
            f"video_bytes_input: {pixels.shape[1]} frames, at most {most_frames} are allowed"
        )
    frames = images_from_pixels(pixels, limits, name="video_bytes_input")
    seconds = _seconds(inputs, facts)
    prepared = processor.prepare_video([*map(Image.fromarray, frames)])
    tensors = dict(prepared.tensors)
    if seconds is not None:
        tensors[SECOND_PER_GRID_TS] = np.array([FRAMES * seconds / len(frames)], dtype=np.float32)
    return replace(prepared, tensors=tensors, ids=(video_id(frames),))


def check_rows(rows: Sequence[int], most: int) -> None:
    """Refuse more features than memory is planned for."""
    if sum(rows) > most:
        raise RequestError(
            f"images and videos are {sum(rows)} features together, at most {most} are planned for; "
            "send fewer or smaller ones, or fewer frames"
        )


def _seconds(inputs: Tensors, facts: ModelFacts) -> float | None:
    """Return the length of the video; None: it is not known."""
    found: float | None = scalar(inputs, "VIDEO_SECONDS")
    if found is None:
        return None
    if not reads_times(facts):
        raise RequestError(
            "video_seconds_input: this model reads the order of frames and not their times; "
            "leave it out"
        )
    if not 0 < found <= LONGEST_VIDEO:
        raise RequestError(
            f"video_seconds_input is {found:g}; expected seconds, up to {LONGEST_VIDEO}"
        )
    return found
