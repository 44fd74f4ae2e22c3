"""The audio of the project's own requests (warm-up, evaluation): short and always the same."""

import math

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.preprocess.audio.samples import FULL_SCALE, SAMPLE_RATE

_AMPLITUDE = 3000
"""Peak within sixteen bits: a quiet tone."""

_SAMPLE_HERTZ = 440.0


def tone(hertz: float) -> NDArray[np.float32]:
    """Return half a second of a quiet tone, of -1 to 1, at the model's rate.

    Each sample is one that sixteen bits hold: processors that differ in a sine's last bit give the
    same audio, and so does a WAV file of it.
    """
    at = np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    steps = np.round(_AMPLITUDE * np.sin(2 * math.pi * hertz * at))
    audio: NDArray[np.float32] = (steps / FULL_SCALE).astype(np.float32)
    return audio


def sample_audio() -> NDArray[np.float32]:
    return tone(_SAMPLE_HERTZ)
