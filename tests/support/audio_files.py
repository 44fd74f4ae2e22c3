"""Audio clips of tests, and the files that hold them."""

import numpy as np
from numpy.typing import NDArray

from support.audio_channels import recording

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
) -> bytes:
    return recording([audio.astype(np.float32)], container, codec, rate=rate)
