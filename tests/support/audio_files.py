"""Audio clips of tests, and the files that hold them."""

import io

import av
import numpy as np
from numpy.typing import NDArray

RATE = 16_000


def noise(seconds: float, seed: int, rate: int = RATE) -> NDArray[np.float32]:
    """Return two tones that change and some noise: nothing in it repeats."""
    random = np.random.default_rng(seed)
    at = np.arange(int(seconds * rate)) / rate
    tones = np.sin(2 * np.pi * (200 + 300 * seed + 900 * at) * at) * 0.3
    return (tones + random.normal(size=len(at)) * 0.05).astype(np.float32)


def encode_audio(
    audio: NDArray[np.float32],
    container: str = "wav",
    codec: str = "pcm_s16le",
    *,
    rate: int = RATE,
    channels: int = 1,
) -> bytes:
    """Return a file of an audio clip, written by FFmpeg."""
    file = io.BytesIO()
    layout = "mono" if channels == 1 else "stereo"
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=rate, layout=layout)
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(
            np.repeat(audio[None], channels, axis=0).astype(np.float32), "fltp", layout
        )
        frame.rate = rate
        for packet in stream.encode(frame):
            output.mux(packet)
        for packet in stream.encode(None):
            output.mux(packet)
    return file.getvalue()
