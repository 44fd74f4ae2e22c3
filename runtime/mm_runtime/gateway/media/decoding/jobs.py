"""What a decoder does: one file -> the pixels or samples that the engine needs."""

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from PIL import Image

from mm_runtime.gateway.media.as_sent import no_values
from mm_runtime.gateway.media.audio import decode_audio
from mm_runtime.gateway.media.decoding.wire import Decoded, Job
from mm_runtime.gateway.media.frames import Clip
from mm_runtime.gateway.media.video import VideoLimits, decode_video, read_video
from mm_runtime.images.media import checked_size, decode
from mm_runtime.images.plain import plain

Reduce = Callable[[Image.Image, int], Image.Image]
"""An image and the number of images of its request -> the image as the engine needs it."""

Keeps = Callable[[int, int], bool]
"""Width and height of an image -> whether it is surely not reduced."""

ReduceFrame = Callable[[Image.Image], Image.Image]

IMAGE_SECONDS = 10
"""Processor time: a JPEG of fifty million pixels in a hundred scans takes 4.3 s."""

VIDEO_SECONDS = 30
"""A video of two thousand million pixels of H.264 takes 6 s; newer codecs take more."""

AUDIO_SECONDS = 10
"""Half a minute of audio takes a tenth of one."""


@lru_cache
def image_job(reduce: Reduce, count: int, max_pixels: int, keeps: Keeps | None = None) -> Job:
    """Return the job of an image; `count` is of its request. It gives uint8[height, width, 3].

    `keeps`: of a file that every reader shows so, and that is not reduced, the type and no values.
    """
    return partial(_image, reduce, count, max_pixels, keeps)


def video_job(keep: ReduceFrame, limits: VideoLimits, *, is_url: bool) -> Job:
    """Return the job of a video, or of its `data:` URL in UTF-8.

    It gives uint8[frames, height, width, 3] and the length of the video.
    """
    return partial(_video_of_url if is_url else _video, keep, limits)


def audio_job(most_samples: int) -> Job:
    """Return the job of decoding audio. It gives float32[samples]."""
    return partial(decode_audio, most_samples=most_samples)


def _image(
    reduce: Reduce, count: int, max_pixels: int, keeps: Keeps | None, encoded: bytes
) -> Decoded:
    found = plain(encoded) if keeps else None
    media_type = found[0] if found else ""
    if media_type and keeps and (size := checked_size(encoded, max_pixels, keeps)):
        return Decoded(no_values((*size[::-1], 3), np.dtype(np.uint8)), media_type=media_type)
    shown = decode(encoded, max_pixels=max_pixels)
    made = reduce(shown, count)
    return Decoded(np.asarray(made), media_type=media_type if made is shown else "")


def _video(keep: ReduceFrame, limits: VideoLimits, encoded: bytes) -> Decoded:
    return _stacked(decode_video(encoded, limits, keep))


def _video_of_url(keep: ReduceFrame, limits: VideoLimits, url: bytes) -> Decoded:
    return _stacked(read_video(url.decode("utf-8", "surrogatepass"), limits, keep))


def _stacked(clip: Clip) -> Decoded:
    pixels = np.stack([np.asarray(frame) for frame in clip.frames])
    return Decoded(pixels, clip.seconds)
