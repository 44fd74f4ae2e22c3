"""Files that rows of transcriptions send, by the name that stands in a row."""

from collections.abc import Callable, Mapping

SHORT, LONGER, FLAC = "short", "longer", "flac"
EMPTY, NO_AUDIO, TOO_LONG, TOO_LARGE = "empty", "no audio", "too long", "too large"

SHORT_SECONDS, LONGER_SECONDS = 0.8, 3.7
"""The small checkpoint's window is one second."""

_LONGEST_SECONDS = 600
_LARGEST_BYTES = 16 << 20
"""More than a body may have where files have a megabyte."""


def _noise(seconds: float, container: str = "wav", codec: str = "pcm_s16le") -> bytes:
    from support.audio_files import encode_audio, noise  # noqa: PLC0415 (the page needs no FFmpeg)

    return encode_audio(noise(seconds, seed=4), container, codec)


def _silence(seconds: float) -> bytes:
    import numpy as np  # noqa: PLC0415

    from support.audio_files import RATE, encode_audio  # noqa: PLC0415

    return encode_audio(np.zeros(int(seconds * RATE), np.float32), "flac", "flac")


RECORDINGS: Mapping[str, Callable[[], bytes]] = {
    SHORT: lambda: _noise(SHORT_SECONDS),
    LONGER: lambda: _noise(LONGER_SECONDS),
    FLAC: lambda: _noise(SHORT_SECONDS, "flac", "flac"),
    EMPTY: lambda: b"",
    NO_AUDIO: lambda: b"not a valid audio file",
    TOO_LONG: lambda: _silence(_LONGEST_SECONDS + 1),
    TOO_LARGE: lambda: bytes(_LARGEST_BYTES),
}
"""Name -> the file; another value of `file` is sent as a text."""
