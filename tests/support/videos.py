"""Small videos of tests, written by FFmpeg."""

import io

import av
import numpy as np

SIDE = 64


def video(
    frames: int,
    container: str = "mp4",
    codec: str = "h264",
    *,
    width: int = SIDE,
    height: int = SIDE,
) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(frames):
            pixels = np.full((height, width, 3), grey(number, frames), np.uint8)
            pixels[: height // 2, : width // 2] = 255
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                output.mux(packet)
        for packet in stream.encode(None):
            output.mux(packet)
    return file.getvalue()


def grey(number: int, frames: int) -> int:
    return 20 + 180 * number // max(1, frames - 1)


def long_video(frames: int, side: int = 16) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream = output.add_stream("mpeg4", rate=25)
        stream.width = stream.height = side
        image = av.VideoFrame.from_ndarray(np.zeros((side, side, 3), np.uint8), format="rgb24")
        coded = bytes(next(iter((*stream.encode(image), *stream.encode(None)))))
        for number in range(frames):
            packet = av.Packet(coded)
            packet.stream, packet.is_keyframe = stream, True
            packet.time_base, packet.pts, packet.dts = (
                stream.codec_context.time_base,
                number,
                number,
            )
            output.mux(packet)
    return file.getvalue()
