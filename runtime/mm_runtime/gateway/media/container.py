"""Opens videos and audio of users: the format is read from the first bytes, never guessed.

FFmpeg would try every demuxer that it has on bytes it does not know; here each request names one of
a few, and one of a few decoders, and neither may open a file or an address.

Package `av` is imported by the first recording: an image without it serves everything else.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from mm_runtime.gateway.media.wholeness import (
    after_tags,
    fault_of,
    with_complete_samples,
)
from mm_runtime.images.kinds import kind_of

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.stream import VideoStream

_DEMUXERS: tuple[tuple[int, bytes, str], ...] = (
    (8, b"WAVE", "wav"),
    (0, b"fLaC", "flac"),
    (0, b"ID3", "mp3"),
    (0, b"OggS", "ogg"),
    *((4, kind, "mp4") for kind in (b"ftyp", b"moov", b"mdat", b"wide")),
    (0, b"\x1a\x45\xdf\xa3", "matroska"),
)
"""Place and spelling of a mark, and FFmpeg's name of the format; QuickTime's own
videos begin with any of its boxes."""

_LONGEST_MARK = 16

_ADTS_SYNC, _ADTS_MASK = 0xFFF0, 0xFFF6
"""A raw stream of AAC begins with twelve ones, and says layer 0, which no MP3 has."""

_MP3_SYNC = 0xFFE0
"""An MP3 without a tag begins with eleven ones."""

_OTHERS: tuple[tuple[int, bytes, str], ...] = (
    (8, b"AVI ", "AVI"),
    (0, b"FLV", "FLV"),
    (0, b"\x30\x26\xb2\x75", "ASF (WMA, WMV)"),
    (0, b"\x00\x00\x01\xba", "an MPEG program stream"),
    (188, b"G", "an MPEG transport stream"),
    (0, b"\x00\x00\x00\x01", "a raw stream of H.264 or H.265"),
    (0, b"\x00\x00\x01", "a raw stream of video"),
    (0, b"DKIF", "IVF"),
    (0, b"#!AMR", "AMR"),
    (0, b"FORM", "AIFF"),
    (0, b"caff", "CAF"),
    (0, b".snd", "AU"),
    (0, b"RIFX", "WAV of big-endian numbers"),
    (0, b"riff", "Wave64"),
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (8, b"WEBP", "a WebP image"),
)
"""What players or other servers read and this one does not: by name, not by a shrug."""

_DAMAGE = {"err_detect": "crccheck+explode"}
"""For decoders and demuxers, as Chromium's: checksums count, and an error is not concealed."""

_DECODERS = {
    "audio": frozenset(
        {"flac", "mp3", "mp3float", "vorbis", "opus", "libopus", "aac", "alac"}
        | {f"pcm_{kind}" for kind in ("u8", "s16le", "s24le", "s32le", "f32le", "f64le")}
        | {f"pcm_{kind}" for kind in ("s16be", "s24be", "mulaw", "alaw")}
    ),
    "video": frozenset({"h264", "hevc", "vp8", "vp9", "libvpx", "libvpx-vp9", "av1", "libdav1d"})
    | {"mpeg4", "mjpeg"},
}

AUDIO_FORMATS = "WAV, FLAC, MP3, AAC, Ogg, M4A/MP4 or WebM"
VIDEO_FORMATS = "MP4 or WebM"


class BadRecordingError(Exception):
    """The bytes are no video or audio that is read here. The message is for the client."""


def format_of(encoded: bytes) -> str | None:
    """Return FFmpeg's name of a recording's format, None for one that is not read here."""
    # Raw AAC and FLAC may have the tag of an MP3.
    start = after_tags(encoded)
    begins = int.from_bytes(encoded[start : start + 2], "big")
    if begins & _ADTS_MASK == _ADTS_SYNC:
        return "aac"
    known = _marked(encoded[start : start + _LONGEST_MARK], _DEMUXERS)
    return known or ("mp3" if begins & _MP3_SYNC == _MP3_SYNC else None)


def named(encoded: bytes) -> str:
    """Return what bytes are that are not read here, as far as they say."""
    found = _marked(encoded, _OTHERS)
    kind = f"but {found}" if found else kind_of(encoded)
    return f"the bytes are not a recording of a known format, {kind}"


def _marked(encoded: bytes, marks: tuple[tuple[int, bytes, str], ...]) -> str | None:
    found = (name for at, mark, name in marks if encoded[at : at + len(mark)] == mark)
    return next(found, None)


@contextmanager
def opened(
    encoded: bytes, kind: Literal["audio", "video"]
) -> Iterator[tuple["InputContainer", "AudioStream | VideoStream"]]:
    """Open a recording, and its stream of a kind that players choose, with one thread.

    Raises:
        BadRecordingError: another format or codec, no such stream, damaged, or nothing in this
            image can decode it.
    """
    expected = AUDIO_FORMATS if kind == "audio" else VIDEO_FORMATS
    encoded = encoded[after_tags(encoded) :]
    name = format_of(encoded)
    if name is None:
        raise BadRecordingError(f"{named(encoded)}; send {expected}")
    if (fault := fault_of(encoded, name)) is not None:
        raise BadRecordingError(f"the recording {fault}")
    if name == "wav":
        encoded = with_complete_samples(encoded)
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
            **_DAMAGE,
        }
        file = io.BytesIO(encoded)
        with av.open(file, mode="r", format=name, container_options=options) as container:
            yield container, _stream(container, kind)
    except FFmpegError as error:
        raise BadRecordingError(
            f"the recording is damaged or truncated ({error.strerror}); send it again, or saved "
            "in another format"
        ) from None
    except EOFError as error:
        raise BadRecordingError(f"the recording is truncated ({error})") from None


def _stream(
    container: "InputContainer", kind: Literal["audio", "video"]
) -> "AudioStream | VideoStream":
    """Return the stream that its file names as the default, else the first one."""
    from av.stream import Disposition  # noqa: PLC0415 (see module)

    streams = container.streams.audio if kind == "audio" else container.streams.video
    # The cover of a song is a stream of one image.
    found = [one for one in streams if not one.disposition & Disposition.attached_pic]
    if not found:
        other = "audio" if kind == "video" and container.streams.audio else None
        hint = f"; it is {other}: send it as `input_audio`" if other else ""
        raise BadRecordingError(f"the recording has no {kind} stream{hint}")
    stream = next((one for one in found if one.disposition & Disposition.default), found[0])
    context = stream.codec_context
    if context is None:
        raise BadRecordingError(
            f"the recording's {kind} is encoded in a way that is not known here, or damaged"
        )
    if context.codec.name not in _DECODERS[kind]:
        raise BadRecordingError(
            f"the recording's {kind} is encoded as {context.codec.name}, which is not read here; "
            f"expected one of {', '.join(sorted(_DECODERS[kind]))}"
        )
    context.options = _DAMAGE
    context.thread_count = 1  # requests are decoded side by side already
    return stream
