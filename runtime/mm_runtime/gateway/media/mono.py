"""Frames of audio of any layout -> one channel at the model's rate, in which none is lost."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.preprocess.audio.samples import SAMPLE_RATE

if TYPE_CHECKING:
    from av import AudioFrame, AudioResampler

Steps = NDArray[np.int16]

_LOST = 0.1
"""Share of the mean power of all channels, what their mix keeps at the least. Channels that have
nothing in common keep a half in stereo, one that plays alone in 7.1 a tenth; opposite phases
nothing."""


class Mono:
    """Mixes channels as FFmpeg does, and takes the loudest one where they cancel out.

    That is decided for each second: phases may be opposite in a part of a recording.
    """

    def __init__(self) -> None:
        self._mix: AudioResampler | None = None
        self._split: AudioResampler | None = None
        self._mixed = np.zeros(0, np.int16)
        self._channels = np.zeros((0, 0), np.int16)
        self._setup: tuple[str, str, int] | None = None

    def push(self, frame: "AudioFrame | None") -> Iterator[Steps]:
        """Yield the samples that are there after a frame; None: after all."""
        if frame is not None:
            setup = (frame.layout.name, frame.format.name, frame.sample_rate)
            if setup != self._setup:
                yield from self.push(None)  # what is left of another setup
                self._setup = setup
                self._begin(frame)
        if self._mix is None:
            return
        mixed = _joined(self._mix, frame, 1)[0]
        if self._split is None:
            yield mixed
            return
        channels = _joined(self._split, frame, len(self._channels))
        self._mixed = np.concatenate([self._mixed, mixed])
        self._channels = np.concatenate([self._channels, channels], axis=1)
        while len(self._mixed) >= SAMPLE_RATE:
            yield self._second()
        if frame is None and len(self._mixed):
            yield self._second()

    def _begin(self, frame: "AudioFrame") -> None:
        from av import AudioResampler  # noqa: PLC0415 (see `mm_runtime.gateway.media.container`)

        count = frame.layout.nb_channels
        # Sixteen bits, one channel: what OpenAI's own loader requests from FFmpeg.
        self._mix = AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
        self._split = None
        if count > 1:
            # Not `s16p`: PyAV 17 reads beyond the eight planes of such a frame.
            self._split = AudioResampler(format="s16", layout=frame.layout, rate=SAMPLE_RATE)
        self._channels = np.zeros((count, 0), np.int16)

    def _second(self) -> Steps:
        mixed, self._mixed = self._mixed[:SAMPLE_RATE], self._mixed[SAMPLE_RATE:]
        channels, self._channels = np.split(self._channels, [SAMPLE_RATE], axis=1)
        power = (channels.astype(np.float32) ** 2).mean(axis=1)
        if (mixed.astype(np.float32) ** 2).mean() >= _LOST * power.mean():
            return mixed
        loudest: Steps = channels[int(power.argmax())]
        return loudest[: len(mixed)]


def _joined(resampler: "AudioResampler", frame: "AudioFrame | None", channels: int) -> Steps:
    pieces = [one.to_ndarray().reshape(-1, channels).T for one in resampler.resample(frame)]
    return np.concatenate([np.zeros((channels, 0), np.int16), *pieces], axis=1)
