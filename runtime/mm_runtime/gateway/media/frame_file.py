"""Frames -> a video file of exactly these frames, for servers that read videos as files.

FFV1 loses nothing, FFmpeg has its decoder without another library, and MP4 says how many frames
there are. Compared with OpenCV's loader of frames (4.11, 5.0): every value is equal.

Package `av` is imported by the first file: an image without it serves everything else.
"""

import io
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from mm_api.gateway_memory import FFV1_FILE_COPIES, FFV1_FRAME_COPIES
from mm_runtime.serving.preprocess.processors.frame_sizes import FRAMES

if TYPE_CHECKING:
    from av.video.stream import VideoStream

MEDIA_TYPE = "video/mp4"
RATE = 2
"""Frames a second. OpenCV finds a frame by its time, so the rate is an integer; transformers'
processors count two a second where no one says another number."""

_OPTIONS = {"level": "3", "g": "1", "slices": "4", "slicecrc": "0"}
"""Every frame is complete by itself: a reader that goes to one decodes no other."""


def frame_file(frames: NDArray[np.uint8]) -> io.BytesIO:
    """Return an MP4 of an even number of frames: an odd last one is there twice.

    Two become one patch in time, so the checkpoint's processor would repeat it all the same; and of
    a file with a single frame OpenCV reads none, once it has looked for the last one.

    Args:
        frames: uint8[frames, height, width, 3].
    """
    import av  # noqa: PLC0415 (see module)

    odd = len(frames) % FRAMES
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        added = container.add_stream("ffv1", rate=RATE, options=_OPTIONS)
        stream = cast("VideoStream", added)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "bgr0"
        stream.codec_context.thread_count = 1  # requests beside it have the other cores
        for pixels in (*frames, *frames[len(frames) - odd :]):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file


def memory_bytes(frames: NDArray[np.uint8]) -> int:
    even = len(frames) + len(frames) % FRAMES
    return int(frames[0].nbytes * (even * FFV1_FILE_COPIES + FFV1_FRAME_COPIES))
