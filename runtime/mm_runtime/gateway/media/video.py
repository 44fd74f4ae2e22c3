"""Encoded videos of users -> a bounded number of upright RGB frames, within limits.

A row of JPEG images is what the decoder of images reads; files with a video stream are
`video_file`'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mm_runtime.gateway.media.container import named
from mm_runtime.gateway.media.frame_choice import EVENLY, FrameChoice
from mm_runtime.gateway.media.frames import Clip, Keep, same
from mm_runtime.gateway.media.video_file import decode_video_file, is_video_file
from mm_runtime.images.data_urls import decode_base64, split_data_url
from mm_runtime.images.media import BadImageError, decode

FRAME_ROW = "video/jpeg"
"""Media type of frames in a row: `data:video/jpeg;base64,<frame>,<frame>`, each an image."""

_MOST_STORED_FRAMES = 4096
"""Frames of a file. It is decoded from the first frame on, whichever are wanted."""


@dataclass(frozen=True, slots=True)
class VideoLimits:
    """Limits of one video: of all bytes, of a frame's pixels, and of frames that are kept."""

    max_bytes: int
    max_pixels: int
    max_frames: int
    choice: FrameChoice = EVENLY
    """Which frames are kept within the last limit."""


def read_video(url: str, limits: VideoLimits, keep: Keep = same) -> Clip:
    """Return the frames of a `data:` URL; frames in a row have no length.

    `url`: the video itself, or its frames in a row. `keep`: makes a frame small as soon as it is
    decoded; only what it returns is held.

    Raises:
        BadImageError: no video this gateway takes, or one above a limit.
    """
    parts = split_data_url(url)
    if parts.media_type != FRAME_ROW or not parts.is_base64:
        return decode_video(parts.content(max_bytes=limits.max_bytes), limits, keep)
    count = parts.body.count(",") + 1
    _check_frames(count)
    encoded_frames = parts.body.split(",")
    left, frames, sizes = limits.max_bytes, [], set()
    for at in limits.choice.places(count, None, limits.max_frames):
        content = decode_base64(encoded_frames[at], max_bytes=left)
        left -= len(content)
        frame = decode(content, max_pixels=limits.max_pixels)
        sizes.add(frame.size)
        if len(sizes) > 1:
            raise BadImageError("the frames of the video have different sizes; make them equal")
        frames.append(keep(frame))
    return Clip(frames, None)


def decode_video(encoded: bytes, limits: VideoLimits, keep: Keep = same) -> Clip:
    """Return frames of a video, evenly spread when it has more than are kept.

    `keep`: as in `read_video`.

    Raises:
        BadImageError: no video, truncated, of another format, or above a limit.
    """

    def wanted(count: int, seconds: float | None, times: Sequence[float] = ()) -> Sequence[int]:
        _check_frames(count)
        return limits.choice.places(count, seconds, limits.max_frames, times)

    if not encoded:
        raise BadImageError("the video is empty (0 bytes)")
    if not is_video_file(encoded):
        raise BadImageError(
            f"{named(encoded).replace('recording', 'video')}; send an MP4 or WebM, or the frames "
            "themselves as data:video/jpeg;base64,<frame>,<frame>"
        )
    return decode_video_file(encoded, max_pixels=limits.max_pixels, wanted=wanted, keep=keep)


def _check_frames(count: int) -> None:
    if count > _MOST_STORED_FRAMES:
        raise BadImageError(
            f"the video has {count} frames, more than {_MOST_STORED_FRAMES}; send fewer of them"
        )
