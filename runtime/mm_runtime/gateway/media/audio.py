"""Encoded audio -> samples as the model reads them, within a length; and samples -> a file."""

import io
import wave
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.media.container import BadRecordingError, opened
from mm_runtime.serving.preprocess.audio.samples import FULL_SCALE, SAMPLE_RATE

if TYPE_CHECKING:
    from av import AudioFrame, AudioResampler
    from av.audio.stream import AudioStream
    from av.container import InputContainer

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


_FLOATS = ("flt", "dbl")
"""FFmpeg's names of the formats of samples in files that hold more than numbers. Those of decoders
(`fltp`) are none: they compute them; and PyAV 17 reads beyond the eight channels of such a frame.
"""

_GAP, _DRIFT = 0.1, 0.0005
"""Seconds, and part of the time before, by which the times of a file may differ from what its
samples say: containers round, and no two clocks are equal. FFmpeg's `aresample` has the first."""

_UNTIMED = frozenset({"aac", "mp3", "flac", "wav"})
"""Formats without times of their own: FFmpeg counts, and does not see that a rate changes."""

_FLAC_SLACK = 0.01
"""Seconds that rounding may take."""

Samples = NDArray[np.float32]

LEAST_RATE, MOST_RATE = 4_000, 192_000
"""Samples a second: half of a telephone's, and what studios record at most."""

MOST_CHANNELS = 8
"""As in a room with eight loudspeakers."""

_SLACK = 8192
"""Samples that resampling may still drop at the end: more than the longest block of a codec
(AAC: 2048 at 8 kHz)."""


def decode_audio(encoded: bytes, *, most_samples: int) -> Samples:
    """Return float32 samples of -1 to 1 of one channel at the model's rate.

    Raises:
        BadRecordingError: no audio that is read here, damaged, empty or longer than allowed.
    """
    if not encoded:
        raise BadRecordingError("the file is empty (0 bytes)")
    parts = list(_played(encoded, most_samples))
    if not any(map(len, parts)):
        raise BadRecordingError("the audio has no samples")
    return np.concatenate(parts).astype(np.float32) / np.float32(FULL_SCALE)


def _played(encoded: bytes, most_samples: int) -> Iterator[NDArray[np.int16]]:
    count, received = 0, 0.0
    with opened(encoded, "audio") as (container, found):
        mono, stream = Mono(), cast("AudioStream", found)
        frames = _decoded(container, stream)
        if container.format.name not in _UNTIMED:
            frames = _in_time(frames, container)
        # A frame at a time: all frames of a long file are gigabytes.
        for frame in chain(frames, (None,)):
            if frame is not None:
                received += frame.samples / frame.sample_rate
                # Before it is resampled: a frame of 65,535 samples at 1 Hz becomes 18 hours.
                if count + frame.samples * SAMPLE_RATE / frame.sample_rate > most_samples + _SLACK:
                    raise _too_long(most_samples)
            for piece in mono.push(frame):
                yield piece
                count += len(piece)
            if count > most_samples:
                raise _too_long(most_samples)
        _check_length(stream, received)


def _decoded(container: "InputContainer", stream: "AudioStream") -> Iterator["AudioFrame"]:
    for packet in container.demux(stream):
        # The last block of a WAV that does not say its length counts as damaged, too.
        if packet.is_corrupt and container.format.name != "wav":
            raise BadRecordingError("the audio is damaged: a checksum is wrong; send it again")
        for frame in packet.decode():
            if frame.is_corrupt:
                raise BadRecordingError("the audio is damaged: a block cannot be decoded")
            _check_frame(frame)
            yield frame


def _in_time(frames: Iterator["AudioFrame"], container: "InputContainer") -> Iterator["AudioFrame"]:
    """Yield frames, and silence where the times of the file leave a gap; they may not go back.

    They count from the first frame of any stream, which is where players begin.
    """
    at = None if container.start_time is None else container.start_time / 1e6
    for frame in frames:
        start = (at or 0.0) if frame.time is None else frame.time
        at = start if at is None else at
        if start < at - _GAP - _DRIFT * abs(at):
            raise BadRecordingError(
                f"the audio's times go back from {at:.2f} to {start:.2f} seconds, so two "
                "parts would overlap; save it again, with times that rise"
            )
        while start > at + _GAP:
            silence = _silence(frame, min(start - at, 1.0))
            at += silence.samples / silence.sample_rate
            yield silence
        at += frame.samples / frame.sample_rate
        yield frame


def _silence(like: "AudioFrame", seconds: float) -> "AudioFrame":
    from av import AudioFrame  # noqa: PLC0415 (see `mm_runtime.gateway.media.container`)

    samples = round(seconds * like.sample_rate)
    silence = AudioFrame("s16", like.layout.name, samples)
    silence.sample_rate = like.sample_rate
    (plane,) = silence.planes
    plane.update(bytes(plane.buffer_size))
    return silence


def _check_length(stream: "AudioStream", received: float) -> None:
    """Check the samples that a FLAC promises: its blocks say how many follow, but not whether."""
    if stream.codec_context.codec.name != "flac" or not (stream.duration and stream.time_base):
        return
    promised = float(stream.duration * stream.time_base)
    if received < promised - _FLAC_SLACK:
        raise BadRecordingError(
            f"the audio is truncated: its header promises {promised:.2f} seconds, and it has "
            f"{received:.2f}; send all of it"
        )


def _check_frame(frame: "AudioFrame") -> None:
    """Check rate and channels, which may change in mid-stream."""
    if not LEAST_RATE <= frame.sample_rate <= MOST_RATE:
        raise BadRecordingError(
            f"the audio has {frame.sample_rate} samples a second; expected {LEAST_RATE} to "
            f"{MOST_RATE}"
        )
    if frame.format.name in _FLOATS and not np.isfinite(frame.to_ndarray()).all():
        raise BadRecordingError(
            "the audio has samples that are not finite (NaN or infinite); expected -1 to 1"
        )
    channels = frame.layout.nb_channels
    if channels > MOST_CHANNELS:
        raise BadRecordingError(
            f"the audio has {channels} channels; expected at most {MOST_CHANNELS}"
        )


def _too_long(most_samples: int) -> BadRecordingError:
    return BadRecordingError(
        f"the audio is longer than {most_samples / SAMPLE_RATE:g} seconds, the limit of the model "
        "for one request; send it in parts"
    )


def is_silent(audio: Samples) -> bool:
    """Return whether nothing is in the audio: at most one step of sixteen bits, which is noise."""
    return bool(np.abs(audio).max() * FULL_SCALE <= 1)


def encode_wav(audio: Samples) -> bytes:
    """Return samples of -1 to 1 as a file of sixteen bits, as users send it."""
    # Sixteen bits hold no +1.0: it would come out as -1.0.
    steps = np.clip(audio * FULL_SCALE, -FULL_SCALE, FULL_SCALE - 1).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(SAMPLE_RATE)
        writer.writeframes(steps.tobytes())
    return file.getvalue()
