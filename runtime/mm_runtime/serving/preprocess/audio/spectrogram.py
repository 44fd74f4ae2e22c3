"""Audio to the log-mel spectrogram that Whisper's encoder reads, without torch.

The steps are those of OpenAI's `whisper/audio.py`, as transformers' feature extractor does them;
a test compares the two.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_api.checkpoint.parts import processor_of
from mm_runtime.images.processor_config import read_json
from mm_runtime.serving.preprocess.audio.samples import SAMPLE_RATE

_TOP_HERTZ = 8_000.0
_LEAST_POWER = 1e-10
"""Silence, before its logarithm is taken."""

_DYNAMIC_RANGE = 8.0
"""Powers of ten below the loudest value that still count."""

# Slaney's mel scale: linear to 1 kHz, 15 mels there, then 27 mels for each factor of 6.4.
_BREAK_HERTZ, _BREAK_MEL = 1_000.0, 15.0
_LOG_STEP = float(np.log(6.4)) / 27.0


@dataclass(frozen=True)
class LogMel:
    """The sizes of one checkpoint."""

    bins: int
    frames: int
    """Columns that the encoder reads: its window."""

    window: int = 400
    hop: int = 160
    """Samples from one frame to the next: 10 ms."""

    @classmethod
    def from_folder(cls, folder: Path, *, bins: int, frames: int) -> "LogMel":
        """Take window and hop from the feature extractor's configuration, where there is one.

        Raises:
            ValueError: it is no JSON, or has another rate than Whisper's.
        """
        config = processor_of(lambda name: read_json(folder / name))
        rate = config.get("sampling_rate", SAMPLE_RATE)
        if rate != SAMPLE_RATE:
            raise ValueError(f"{folder}: sampling_rate is {rate}, expected {SAMPLE_RATE}")
        window, hop = int(config.get("n_fft", 400)), int(config.get("hop_length", 160))
        return cls(bins=bins, frames=frames, window=window, hop=hop)

    @property
    def samples(self) -> int:
        return self.frames * self.hop

    @property
    def seconds(self) -> float:
        return self.samples / SAMPLE_RATE

    def __call__(self, audio: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """Return float32 [frames, bins]; silence follows audio shorter than the window."""
        padded = np.zeros(self.samples, dtype=np.float64)
        padded[: len(audio)] = audio
        return self._scaled(padded)

    def of_length(self, audio: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """Return float32 [frames, bins] of audio longer than the window: 100 frames a second.

        The loudest value of all of it is what counts, as in OpenAI's and transformers' long form.
        """
        return self._scaled(audio)

    def cut(self, frames: NDArray[np.float32], start: int) -> NDArray[np.float32]:
        """Return the window [frames, bins] from a frame on; what is missing at its end is zero."""
        part = frames[start : start + self.frames]
        return np.pad(part, ((0, self.frames - len(part)), (0, 0)))

    def _scaled(self, audio: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        padded = np.pad(audio, self.window // 2, mode="reflect")
        views = np.lib.stride_tricks.sliding_window_view(padded, self.window)[:: self.hop]
        hann = np.hanning(self.window + 1)[:-1]
        frames = len(audio) // self.hop
        logs: NDArray[np.float64] = np.empty((frames, self.bins))
        # A window at a time: the spectra of ten minutes are 200 MB.
        for start in range(0, frames, self.frames):
            part = views[start : min(frames, start + self.frames)]
            power = np.abs(np.fft.rfft(part * hann)) ** 2
            logs[start : start + len(part)] = np.log10(
                np.maximum(power @ self._filters, _LEAST_POWER)
            )
        logs = np.maximum(logs, logs.max() - _DYNAMIC_RANGE)
        scaled: NDArray[np.float32] = ((logs + 4.0) / 4.0).astype(np.float32)
        return scaled

    @cached_property
    def _filters(self) -> NDArray[np.float64]:
        """Return triangles of equal area on the mel scale, [frequencies, bins]."""
        edges = _hertz(np.linspace(0.0, _mel(_TOP_HERTZ), self.bins + 2))
        frequencies = np.linspace(0.0, SAMPLE_RATE / 2, self.window // 2 + 1)
        slopes = edges[None, :] - frequencies[:, None]
        widths = np.diff(edges)
        rising, falling = -slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]
        triangles: NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling))
        return triangles * (2.0 / (edges[2:] - edges[:-2]))[None]


def _mel(hertz: float) -> float:
    if hertz < _BREAK_HERTZ:
        return 3.0 * hertz / 200.0
    return _BREAK_MEL + float(np.log(hertz / _BREAK_HERTZ)) / _LOG_STEP


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    beyond = _BREAK_HERTZ * np.exp(_LOG_STEP * (mels - _BREAK_MEL))
    return np.where(mels >= _BREAK_MEL, beyond, 200.0 * mels / 3.0)
