"""Video files of users (MP4, WebM) -> evenly spread frames, upright RGB, within limits.

The frames are counted without decoding any: what is too long costs nothing but its bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from mm_runtime.gateway.media.container import BadRecordingError, format_of, opened
from mm_runtime.gateway.media.frames import Clip, Keep, PixelBudget, same
from mm_runtime.gateway.media.shown import Shape
from mm_runtime.images.media import BadImageError, check_pixels

if TYPE_CHECKING:
    from av import Packet
    from av.container import InputContainer
    from av.video.codeccontext import VideoCodecContext
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

FORMATS = frozenset({"mp4", "matroska"})

MAX_FILE_PIXELS = 2 * 10**9
"""Sum of all frames up to the last one that is wanted: about a thousand of 1920 x 1080, six seconds
of one core (2.8 ns a pixel of H.264)."""


_DECODERS = {"vp8": "libvpx", "vp9": "libvpx-vp9"}
"""Codec -> a decoder that sees damage and transparency, both of which FFmpeg's own passes over."""

_MAY_HIDE = frozenset({"vp8", "vp9", "mpeg4"})
"""Codecs that have packets without a frame of their own: the one before it stays."""

Wanted = Callable[[int, float | None, Sequence[float]], Sequence[int]]
"""The number of frames, the seconds they take and those before each -> which of them, in rising
order, some perhaps twice; it may refuse."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a video holds, as its packets say."""

    count: int
    marks: tuple[int, ...] = ()
    """When each frame is shown, in rising order; empty: the file has no times."""

    times: tuple[float, ...] = ()
    """The same in seconds after the first one."""

    seconds: float | None = None


def is_video_file(encoded: bytes) -> bool:
    return format_of(encoded) in FORMATS


def decode_video_file(
    encoded: bytes,
    *,
    max_pixels: int,
    wanted: Wanted,
    keep: Keep = same,
) -> Clip:
    """Return some frames of a video.

    `keep`: makes a frame small as soon as it is decoded.

    Raises:
        BadImageError: another codec, damaged, truncated, or above a limit.
    """
    try:
        with opened(encoded, "video") as (container, found):
            stream = cast("VideoStream", found)
            size = (stream.codec_context.width, stream.codec_context.height)
            check_pixels(size, max_pixels)
            shape = Shape(stream, max_pixels)
            measured = _measured(container, stream)
            places = wanted(measured.count, measured.seconds, measured.times)
            budget = PixelBudget(MAX_FILE_PIXELS, places[-1] + 1)
            budget.check(size)
        with opened(encoded, "video") as (container, found):
            frames = _decoded(container, cast("VideoStream", found), shape)
            hides = found.codec_context.codec.canonical_name in _MAY_HIDE
            bounded = _bounded(frames, max_pixels, budget)
            kept = [
                keep(shape.shown(frame))
                for frame in _chosen(bounded, measured, places, hides=hides)
            ]
            return Clip(kept, measured.seconds)
    except BadRecordingError as error:
        raise BadImageError(str(error).replace("recording", "video")) from None


def _measured(container: "InputContainer", stream: "VideoStream") -> _Measured:
    """Return what the packets say; the last one of a stream is empty.

    What comes before the first key frame, or is shown before it, no player can decode.
    """
    first, untimed, end, last = None, 0, 0, 0
    marks: list[int] = []
    started = False
    for packet in container.demux(stream):
        if not packet.size or not (started or packet.is_keyframe):
            continue
        first, started = (first if started else packet.pts), True
        mark = packet.pts
        if packet.is_discard or (mark is not None and first is not None and mark < first):
            continue
        if mark is None:
            untimed += 1
            continue
        if not marks or mark >= last:
            last, end = mark, mark + (packet.duration or 0)
        marks.append(mark)
    count, base = len(marks) + untimed, stream.time_base
    if not count:
        raise BadRecordingError("the recording holds no key frame: it is damaged or truncated")
    if untimed or base is None:
        return _Measured(count)
    marks.sort()
    if count > 1:  # the last frame is shown as long as the others, even if its packet says less
        end = max(end, last + (last - marks[0]) // (count - 1))
    times = tuple(float((mark - marks[0]) * base) for mark in marks)
    return _Measured(count, tuple(marks), times, float((end - marks[0]) * base) or None)


def _decoded(
    container: "InputContainer", stream: "VideoStream", shape: Shape
) -> Iterator["VideoFrame"]:
    """Yield the frames of a stream, from its first key frame on; damage is an error."""
    decode, started = _decoder(stream, shape), False
    for packet in container.demux(stream):
        started = started or packet.is_keyframe
        if packet.is_corrupt:
            raise _damaged(packet.pts, stream)
        if packet.size and not started:
            continue
        for frame in decode(packet):
            if frame.is_corrupt:
                raise _damaged(frame.pts, stream)
            yield frame


def _decoder(
    stream: "VideoStream", shape: Shape
) -> Callable[["Packet[VideoStream]"], "list[VideoFrame]"]:
    """Return what makes frames of a packet, and reads how the first one is turned.

    The container says it, so the container's own decoder has to make this frame.
    """
    from av import CodecContext  # noqa: PLC0415 (see `mm_runtime.gateway.media.container`)

    def own(packet: "Packet[VideoStream]") -> "list[VideoFrame]":
        frames = packet.decode()
        if frames and shape.unknown:
            shape.learn(frames[0])
        return frames

    name = _DECODERS.get(stream.codec_context.codec.canonical_name)
    if name is None:
        return own
    context = cast("VideoCodecContext", CodecContext.create(name, "r"))
    context.thread_count = 1

    def other(packet: "Packet[VideoStream]") -> "list[VideoFrame]":
        if packet.size and shape.unknown:
            own(packet)
        return context.decode(packet if packet.size else None)

    return other


def _damaged(mark: int | None, stream: "VideoStream") -> BadRecordingError:
    where = (
        "a frame" if mark is None else f"the frame at {float(mark * (stream.time_base or 0)):.3f} s"
    )
    return BadRecordingError(f"the recording is damaged: {where} cannot be decoded; send it again")


def _bounded(
    frames: Iterable["VideoFrame"], max_pixels: int, budget: PixelBudget
) -> Iterator["VideoFrame"]:
    for frame in frames:
        # Also those that are not kept: a video may announce 64 x 64 and hold frames of any size.
        check_pixels((frame.width, frame.height), max_pixels)
        budget.spend((frame.width, frame.height))
        yield frame


def _chosen(
    frames: Iterable["VideoFrame"],
    measured: _Measured,
    places: Sequence[int],
    *,
    hides: bool,
) -> Iterator["VideoFrame"]:
    marks = measured.marks or range(measured.count)
    left, before, at = list(places), None, 0
    for number, frame in enumerate(frames):
        mark = number if not measured.marks or frame.pts is None else frame.pts
        if mark < marks[0]:
            continue
        while left and marks[left[0]] < mark:
            if before is None:
                before = frame
            yield before
            left.pop(0)
        if not hides and mark != marks[at]:
            raise _missing(at)
        before, at = frame, at + 1
        while left and marks[left[0]] == mark:
            yield frame
            left.pop(0)
        if not left:
            return
    if not hides or before is None:
        raise _missing(at)
    yield from [before] * len(left)


def _missing(at: int) -> BadRecordingError:
    return BadRecordingError(
        f"the recording is damaged or truncated: frame {at + 1} cannot be decoded"
    )
