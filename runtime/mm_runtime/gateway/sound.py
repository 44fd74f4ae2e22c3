"""Encoded sounds of users -> samples as the model reads them, within a length."""

import io
import math
import wave

import numpy as np
from av import AudioResampler
from numpy.typing import NDArray

from mm_runtime.engine.spectrogram import SAMPLE_RATE
from mm_runtime.gateway.recording import BadRecordingError, opened

Samples = NDArray[np.float32]
_FULL_SCALE = 2**15


def decode_sound(encoded: bytes, *, most_samples: int) -> Samples:
    """Return float32 samples of -1 to 1 of one channel at the model's rate.

    Raises:
        BadRecordingError: no sound that is read here, damaged, empty or longer than allowed.
    """
    if not encoded:
        raise BadRecordingError("the file is empty (0 bytes)")
    parts: list[NDArray[np.int16]] = []
    count = 0
    # Sixteen bits, one channel: what OpenAI's own loader asks FFmpeg for.
    resampler = AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
    with opened(encoded, "audio") as container:
        for frame in (*container.decode(audio=0), None):
            for piece in resampler.resample(frame):
                parts.append(piece.to_ndarray().reshape(-1).astype(np.int16, copy=False))
                count += len(parts[-1])
            if count > most_samples:
                raise BadRecordingError(
                    f"the sound is longer than {most_samples / SAMPLE_RATE:g} seconds, which is "
                    "what the model hears at a time; send it in parts"
                )
    if not count:
        raise BadRecordingError("the sound has no samples")
    return np.concatenate(parts).astype(np.float32) / np.float32(_FULL_SCALE)


def seconds_of(sound: Samples) -> float:
    """Return how long a sound is."""
    return len(sound) / SAMPLE_RATE


def tone(hertz: float) -> bytes:
    """Return half a second of a quiet tone as WAV: what a model is asked that nobody asked yet."""
    at = np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(SAMPLE_RATE)
        writer.writeframes((3000 * np.sin(2 * math.pi * hertz * at)).astype("<i2").tobytes())
    return file.getvalue()
