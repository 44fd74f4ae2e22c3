"""Recordings of tests with channels, formats and damage of their own, written by FFmpeg."""

import io
from collections.abc import Sequence
from fractions import Fraction

import av
import numpy as np
from numpy.typing import NDArray

RATE = 48_000


def tone(seconds: float = 1.0, hertz: float = 440, rate: int = RATE) -> NDArray[np.float32]:
    at = np.arange(int(seconds * rate)) / rate
    return np.asarray(0.5 * np.sin(2 * np.pi * hertz * at), np.float32)


def recording(
    channels: Sequence[NDArray[np.float32]],
    container: str = "wav",
    codec: str = "pcm_s16le",
    *,
    layout: str = "",
    rate: int = RATE,
) -> bytes:
    """Return a file of some channels, each a float32 array of the same length."""
    file = io.BytesIO()
    layout = layout or ("mono", "stereo")[len(channels) - 1]
    with av.open(file, "w", format=container) as output:
        added = output.add_stream(codec, rate=rate, layout=layout)
        assert isinstance(added, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(np.stack(channels), "fltp", layout)
        frame.rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        output.mux(added.encode(frame))
        output.mux(added.encode(None))
    return file.getvalue()
