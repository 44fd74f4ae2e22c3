"""Videos of tests with times, colours, shapes and damage of their own, written by FFmpeg."""

import io
import os
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

RED, BLUE, GREEN = (200, 30, 30), (30, 30, 200), (30, 180, 30)

Colour = tuple[int, int, int]


def plain(colour: Colour, width: int = 64, height: int = 48) -> NDArray[np.uint8]:
    return np.full((height, width, 3), colour, np.uint8)


def busy(number: int, width: int = 128, height: int = 96) -> NDArray[np.uint8]:
    """Return a frame of a video that moves, in which damage shows."""
    blocks = np.random.default_rng(1).integers(0, 255, (height // 8, width // 8, 3), np.uint8)
    frame = np.roll(np.kron(blocks, np.ones((8, 8, 1), np.uint8)), number * 3, axis=1)
    frame[::7] = number * 9 % 255
    return frame


IN_ORDER = {"libx265": {"x265-params": "bframes=0:log-level=error"}}
"""Options of an encoder that, with B-frames, reads a decoding time which it never wrote where a
video has fewer frames than it delays: the muxer refuses the file, now and then."""


def video_of(
    frames: Sequence[NDArray[np.uint8]],
    marks: Sequence[int] | None = None,
    *,
    container: str = "mp4",
    codec: str = "libx264",
    pixels: str = "yuv420p",
    options: dict[str, str] | None = None,
    base: Fraction = Fraction(1, 1000),
    rate: int = 25,
    stream: dict[str, Any] | None = None,
    matrix: Sequence[int] | None = None,
    written: dict[str, Any] | None = None,
) -> bytes:
    """Return a video.

    Args:
        frames: uint8 [height, width, 3 or 4], RGB or with alpha.
        marks: when each is shown, in units of `base`; None: every 40 ms.
        container: FFmpeg's name.
        codec: of its encoder.
        pixels: format of the coded frames.
        options: of the encoder.
        base: unit of time, in seconds.
        rate: frames a second that the file announces, whatever `marks` say.
        stream: attributes of the encoder's context, as colours and the shape of a pixel.
        matrix: how players turn it.
        written: how frames are turned into `pixels`, as `VideoFrame.reformat` takes it.
    """
    file = io.BytesIO()
    height, width = frames[0].shape[:2]
    with av.open(file, "w", format=container) as output:
        added = output.add_stream(
            codec, rate=rate, options=IN_ORDER.get(codec, {}) | (options or {})
        )
        assert isinstance(added, av.VideoStream)
        added.width, added.height, added.pix_fmt = width, height, pixels
        added.codec_context.time_base = base
        for name, value in (stream or {}).items():
            setattr(added.codec_context, name, value)
        if matrix is not None:
            added.set_display_matrix(matrix)
        for number, one in enumerate(frames):
            kind = "rgba" if one.shape[2] == 4 else "rgb24"
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(one), format=kind)
            frame = frame.reformat(format=pixels, **(written or {}))
            step = round(Fraction(40, 1000) / base)
            frame.pts, frame.time_base = (number * step if marks is None else marks[number]), base
            output.mux(added.encode(frame))
        output.mux(added.encode(None))
    # As root SVT-AV1 makes the thread that opens it SCHED_FIFO, above all else on the machine.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return file.getvalue()


def of_packets(
    content: bytes,
    change: Callable[[list[av.Packet]], list[av.Packet]],
    container: str = "mp4",
    options: dict[str, str] | None = None,
) -> bytes:
    """Return a video whose packets were changed, left out or moved."""
    file = io.BytesIO()
    with (
        av.open(io.BytesIO(content)) as source,
        av.open(file, "w", format=container, options=options or {}) as output,
    ):
        stream = output.add_stream_from_template(source.streams.video[0])
        for packet in change([one for one in source.demux(video=0) if one.size]):
            packet.stream = stream
            output.mux(packet)
    return file.getvalue()


def flipped(content: bytes, seed: int, count: int = 40, kind: str = "video") -> bytes:
    with av.open(io.BytesIO(content)) as source:
        stream = next(one for one in source.streams if one.type == kind)
        places = [(one.pos, one.size) for one in source.demux(stream) if one.size]
    chosen, damaged = random.Random(seed), bytearray(content)  # noqa: S311  # no secret
    for _ in range(count):
        at, size = chosen.choice(places)
        damaged[at + chosen.randrange(size)] ^= chosen.randrange(1, 256)
    return bytes(damaged)
