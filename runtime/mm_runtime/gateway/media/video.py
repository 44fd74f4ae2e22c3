"""Encoded videos of users -> a bounded number of upright RGB frames, within limits.

Animated GIF, WebP and PNG, and a row of JPEG images, are what the decoders of images read;
files with a video stream are `video_file`'s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from PIL import Image, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from mm_runtime.gateway.media.animation_times import durations_of
from mm_runtime.gateway.media.container import named
from mm_runtime.gateway.media.frame_choice import EVENLY, FrameChoice
from mm_runtime.gateway.media.frames import Clip, Keep, PixelBudget, same
from mm_runtime.gateway.media.video_file import decode_video_file, is_video_file
from mm_runtime.images.data_urls import decode_base64, split_data_url
from mm_runtime.images.media import BadImageError, check_pixels, decode, opened, to_rgb

FORMATS = ("GIF", "WEBP", "PNG")
FRAME_ROW = "video/jpeg"
"""Media type of frames in a row: `data:video/jpeg;base64,<frame>,<frame>`, each an image."""

_MOST_STORED_FRAMES = 4096
"""Frames of a file. It is decoded from the first frame on, whichever are wanted."""

MOST_ANIMATED_PIXELS = 4 * 10**8
"""Sum of all frames up to the last one that is wanted: four hundred of 1000 x 1000, three seconds
of one core (8 ns a pixel of WebP, 4 of GIF)."""

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
    """Return frames of a video or an animation, evenly spread when it has more than are kept.

    `keep`: as in `read_video`.

    Raises:
        BadImageError: neither, truncated, of another format, or above a limit.
    """

    def wanted(count: int, seconds: float | None, times: Sequence[float] = ()) -> Sequence[int]:
        _check_frames(count)
        return limits.choice.places(count, seconds, limits.max_frames, times)

    if is_video_file(encoded):
        return decode_video_file(encoded, max_pixels=limits.max_pixels, wanted=wanted, keep=keep)
    try:
        with opened(encoded, max_pixels=limits.max_pixels, formats=FORMATS) as image:
            durations = durations_of(encoded)
            stored = getattr(image, "n_frames", 1)
            # A PNG may have an image before its animation, for readers that know no other.
            before = stored - len(durations) if image.info.get("default_image") else 0
            count = stored - before
            ends = [round(one, 6) for one in accumulate(durations)]
            ends = ends if len(ends) == count else []
            seconds, times = (ends[-1], [0.0, *ends[:-1]]) if ends else (None, [])
            places = wanted(count, seconds, times)
            frames = _animation(image, [before + at for at in places], limits, keep)
            return Clip(frames, seconds)
    except UnidentifiedImageError:
        raise BadImageError(f"{named(encoded).replace('recording', 'video')}; {_OTHER}") from None
    except BadImageError as error:
        raise BadImageError(str(error).replace("the image", "the video", 1)) from None


def _animation(
    image: ImageFile, places: Sequence[int], limits: VideoLimits, keep: Keep
) -> list[Image.Image]:
    """Return some frames; every frame up to the last of them is decoded, so all are counted."""
    budget = PixelBudget(MOST_ANIMATED_PIXELS, places[-1] + 1)
    budget.check(image.size)
    frames: dict[int, Image.Image] = {}
    wanted = set(places)
    for at in range(places[-1] + 1):
        image.seek(at)
        # A frame of a GIF may reach beyond its canvas, which then grows.
        check_pixels(image.size, limits.max_pixels)
        budget.spend(image.size)
        if at in wanted:
            frame = to_rgb(image)
            frames[at] = keep(frame.copy() if frame is image else frame)
    return [frames[at] for at in places]


def _check_frames(count: int) -> None:
    if count > _MOST_STORED_FRAMES:
        raise BadImageError(
            f"the video has {count} frames, more than {_MOST_STORED_FRAMES}; send fewer of them"
        )
