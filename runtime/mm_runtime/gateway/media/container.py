"""Opens videos and audio of users: the format is read from the first bytes, never guessed.

FFmpeg would try every demuxer that it has on bytes it does not know; here each request names one of
a few, and one of a few decoders, and neither may open a file or an address.

Package `av` is imported by the first recording: an image without it serves everything else.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from av.container import InputContainer

_DEMUXERS: tuple[tuple[int, bytes, str], ...] = (
    (8, b"WAVE", "wav"),
    (0, b"fLaC", "flac"),
    (0, b"ID3", "mp3"),
    (0, b"OggS", "ogg"),
    (4, b"ftyp", "mp4"),
    (0, b"\x1a\x45\xdf\xa3", "matroska"),
)
"""Place and spelling of a mark, and FFmpeg's name of the format it stands for."""

_MP3_SYNC = 0xFFE0
"""An MP3 without a tag begins with eleven ones."""

_DECODERS = {
    "audio": frozenset(
        {"flac", "mp3", "mp3float", "vorbis", "opus", "libopus", "aac"}
        | {f"pcm_{kind}" for kind in ("u8", "s16le", "s24le", "s32le", "f32le", "f64le")}
    ),
    "video": frozenset({"h264", "hevc", "vp8", "vp9", "libvpx", "libvpx-vp9", "av1", "libdav1d"})
    | {"mpeg4", "mjpeg"},
}

AUDIO_FORMATS = "WAV, FLAC, MP3, Ogg, M4A/MP4 or WebM"
VIDEO_FORMATS = "MP4 or WebM"


class BadRecordingError(Exception):
    """The bytes are no video or audio that is read here. The message is for the client."""


def format_of(encoded: bytes) -> str | None:
    """Return FFmpeg's name of a recording's format, None for one that is not read here."""
    for place, mark, name in _DEMUXERS:
        if encoded[place : place + len(mark)] == mark:
            return name
    begins = int.from_bytes(encoded[:2], "big")
    return "mp3" if begins & _MP3_SYNC == _MP3_SYNC else None


@contextmanager
def opened(encoded: bytes, kind: Literal["audio", "video"]) -> Iterator["InputContainer"]:
    """Open a recording whose first stream of a kind can be decoded here, with one thread.

    Raises:
        BadRecordingError: another format or codec, no such stream, damaged, or nothing in this
            image can decode it.
    """
    expected = AUDIO_FORMATS if kind == "audio" else VIDEO_FORMATS
    name = format_of(encoded)
    if name is None:
        raise BadRecordingError(f"the bytes are not a recording of a known format; send {expected}")
    try:
        import av  # noqa: PLC0415 (see module)
        from av.error import FFmpegError  # noqa: PLC0415
    except ModuleNotFoundError:
        raise BadRecordingError(
            f"this server cannot decode {kind}: its image lacks the package av"
        ) from None
    try:
        # FFmpeg decodes the first frames of every stream to see what it is: also for that, it may
        # use no decoder but these.
        options = {
            "enable_drefs": "0",
            "protocol_whitelist": "",
            "codec_whitelist": ",".join(sorted(frozenset().union(*_DECODERS.values()))),
        }
        file = io.BytesIO(encoded)
        with av.open(file, mode="r", format=name, container_options=options) as container:
            _check_stream(container, kind)
            yield container
    except FFmpegError as error:
        raise BadRecordingError(
            f"the recording is damaged or truncated ({error.strerror})"
        ) from None
    except EOFError as error:
        raise BadRecordingError(f"the recording is truncated ({error})") from None


def _check_stream(container: "InputContainer", kind: Literal["audio", "video"]) -> None:
    found = container.streams.audio if kind == "audio" else container.streams.video
    if not found:
        raise BadRecordingError(f"the recording has no {kind} stream")
    context = found[0].codec_context
    if context.codec.name not in _DECODERS[kind]:
        raise BadRecordingError(
            f"the recording's {kind} is encoded as {context.codec.name}, which is not read here; "
            f"expected one of {', '.join(sorted(_DECODERS[kind]))}"
        )
    context.thread_count = 1  # requests are decoded side by side already
