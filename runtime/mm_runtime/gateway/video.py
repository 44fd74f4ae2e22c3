"""Encoded videos of users -> a bounded number of upright RGB frames, within limits.

Animated GIF, WebP and PNG, and a row of JPEG pictures, are what the decoders of pictures read;
films are `film`'s.
"""

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, UnidentifiedImageError

from mm_runtime.gateway.film import decode_film, is_film
from mm_runtime.pictures.data_urls import decode_base64, split_data_url
from mm_runtime.pictures.media import BadImageError, check_pixels, decode, to_rgb

FORMATS = ("GIF", "WEBP", "PNG")
FRAME_ROW = "video/jpeg"
"""Media type of frames in a row: `data:video/jpeg;base64,<frame>,<frame>`, each a picture."""

_MOST_STORED_FRAMES = 4096
"""Frames of a file. It is decoded from the first frame on, whichever are wanted."""

_OTHER = (
    "send an MP4 or WebM, an animated GIF, WebP or PNG, or the frames themselves as "
    "data:video/jpeg;base64,<frame>,<frame>"
)


@dataclass(frozen=True, slots=True)
class VideoLimits:
    """Limits of one video: of all bytes, of a frame's pixels, and of frames that are kept."""

    max_bytes: int
    max_pixels: int
    max_frames: int


def read_video(url: str, limits: VideoLimits) -> list[Image.Image]:
    """Return the frames of a `data:` URL.

    Raises:
        BadImageError: no video this gateway takes, or one above a limit.
    """
    media_type, encoded = split_data_url(url)
    if media_type.lower() != FRAME_ROW:
        return decode_video(decode_base64(encoded, max_bytes=limits.max_bytes), limits)
    pictures = encoded.split(",")
    _check_frames(len(pictures))
    left, frames = limits.max_bytes, []
    for at in _sampled(len(pictures), limits.max_frames):
        content = decode_base64(pictures[at], max_bytes=left)
        left -= len(content)
        frames.append(decode(content, max_pixels=limits.max_pixels))
    if len({frame.size for frame in frames}) > 1:
        raise BadImageError("the frames of the video have different sizes; make them equal")
    return frames


def decode_video(encoded: bytes, limits: VideoLimits) -> list[Image.Image]:
    """Return frames of a film or an animation, evenly spread when it has more than are kept.

    Raises:
        BadImageError: neither, truncated, of another format, or above a limit.
    """

    def wanted(count: int) -> Sequence[int]:
        _check_frames(count)
        return _sampled(count, limits.max_frames)

    if is_film(encoded):
        return decode_film(encoded, max_pixels=limits.max_pixels, wanted=wanted)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(encoded), formats=FORMATS) as image:
                check_pixels(image.size, limits.max_pixels)
                frames = []
                for at in wanted(getattr(image, "n_frames", 1)):
                    image.seek(at)
                    frames.append(to_rgb(image.copy()))
                return frames
    except BadImageError:
        raise
    except UnidentifiedImageError:
        raise BadImageError(f"the bytes are no video that is read here; {_OTHER}") from None
    except Exception as error:  # noqa: BLE001 - decoders raise SyntaxError, struct.error, EOFError...
        raise BadImageError(f"the video is damaged or truncated ({error}); {_OTHER}") from None


def _sampled(count: int, most: int) -> Sequence[int]:
    """Return which frames are kept: evenly spread, the first and the last among them."""
    if count <= most:
        return range(count)
    return [int(at) for at in np.linspace(0, count - 1, most).round()]


def _check_frames(count: int) -> None:
    if count > _MOST_STORED_FRAMES:
        raise BadImageError(
            f"the video has {count} frames, more than {_MOST_STORED_FRAMES}; send fewer of them"
        )
