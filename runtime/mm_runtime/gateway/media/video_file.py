"""Video files of users (MP4, WebM) -> evenly spread frames, upright RGB, within limits.

The frames are counted without decoding any: what is too long costs nothing but its bytes.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PIL import Image

from mm_runtime.gateway.media.container import BadRecordingError, format_of, opened
from mm_runtime.gateway.media.frames import Clip, Keep, PixelBudget, same, times_of
from mm_runtime.images.media import BadImageError, check_pixels

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame

FORMATS = frozenset({"mp4", "matroska"})

MAX_FILE_PIXELS = 2 * 10**9
"""Of all frames up to the last one that is wanted: about a thousand of 1920 x 1080, six seconds
of one core (2.8 ns a pixel of H.264)."""


def is_video_file(encoded: bytes) -> bool:
    """Return whether the bytes begin like a video file."""
    return format_of(encoded) in FORMATS


def decode_video_file(
    encoded: bytes,
    *,
    max_pixels: int,
    wanted: Callable[[int, float | None], Sequence[int]],
    keep: Keep = same,
) -> Clip:
    """Return some frames of a video.

    Args:
        encoded: the file.
        max_pixels: of one frame.
        wanted: the number of frames, and the seconds they take -> which of them, in rising order;
            it may refuse.
        keep: makes a frame small as soon as it is decoded.

    Raises:
        BadImageError: another codec, damaged, truncated, or above a limit.
    """
    try:
        with opened(encoded, "video") as container:
            context = container.streams.video[0].codec_context
            size = (context.width, context.height)
            check_pixels(size, max_pixels)
            count, seconds = _measured(container)
            places = wanted(count, seconds)
            budget = PixelBudget(MAX_FILE_PIXELS, places[-1] + 1)
            budget.check(size)
        with opened(encoded, "video") as container:
            frames = _frames(container, places, max_pixels, budget, keep)
            return Clip(frames, seconds, times_of(places, count, seconds))
    except BadRecordingError as error:
        raise BadImageError(str(error).replace("recording", "video")) from None


def _measured(container: "InputContainer") -> tuple[int, float | None]:
    """Return how many frames the video holds and the seconds they take, None if it has no times.

    The last packet of a stream is empty.
    """
    count, first, end = 0, None, None
    for packet in container.demux(video=0):
        if not packet.size:
            continue
        count += 1
        if packet.pts is not None:
            first = packet.pts if first is None else min(first, packet.pts)
            shown_until = packet.pts + (packet.duration or 0)
            end = shown_until if end is None else max(end, shown_until)
    if not count:
        raise BadRecordingError("the recording holds no frames: it is damaged or truncated")
    base = container.streams.video[0].time_base
    if first is None or end is None or base is None:
        return count, None
    return count, float((end - first) * base) or None


def _frames(
    container: "InputContainer",
    places: Sequence[int],
    max_pixels: int,
    budget: PixelBudget,
    keep: Keep,
) -> list[Image.Image]:
    left = list(places)
    found: list[Image.Image] = []
    for number, frame in enumerate(container.decode(video=0)):
        # Also those that are not kept: a video may announce 64 x 64 and hold frames of any size.
        check_pixels((frame.width, frame.height), max_pixels)
        budget.spend((frame.width, frame.height))
        if number == left[0]:
            found.append(keep(_upright(frame)))
            left.pop(0)
            if not left:
                return found
    raise BadRecordingError(f"the recording is truncated: frame {left[0] + 1} cannot be decoded")


def _upright(frame: "VideoFrame") -> Image.Image:
    """Return a frame as it is to be looked at; phones store how they were held."""
    image: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
    return image.rotate(frame.rotation, expand=True) if frame.rotation else image
