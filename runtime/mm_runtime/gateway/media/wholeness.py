"""PURE: whether a recording has all the bytes that it promises, with their checksums.

FFmpeg plays what is there, looks for the next intact place behind damage, and says nothing.
"""

import zlib
from collections.abc import Callable, Iterator

_STREAMED_WAV = 0x7FFFF000
"""Sizes from here on (SoX; FFmpeg: 0xFFFFFFFF), and 0, are of programs that could not seek."""

_PLAIN_WAVS = frozenset({b"\1\0", b"\3\0", b"\6\0", b"\7\0", b"\xfe\xff"})
"""Formats whose samples are blocks of one size."""

_MEDIA_BOXES = frozenset({b"mdat", b"moov", b"moof"})
"""Boxes of an MP4; programs append others, some of them with sizes of their own invention."""

_OGG_HEADER, _OGG_CRC_AT, _OGG_BEGINS = 27, 22, 2
_BACKWARDS = bytes(int(f"{one:08b}"[::-1], 2) for one in range(256))
"""Ogg's checksum is zlib's of bytes whose bits are reversed, without its first and last step."""

_SEGMENT, _CLUSTER, _CHECKSUM = 0x18538067, 0x1F43B675, b"\xbf\x84"
_MASTERS = frozenset(
    {0x114D9B74, 0x1549A966, 0x1654AE6B, _CLUSTER, 0x1C53BB6B, 0x1254C367, 0x1941A469, 0x1043A770}
)
_ELEMENTS = _MASTERS | {
    _SEGMENT,
    0x1A45DFA3,
    0xEC,
    0xBF,
    0xE7,
    0xA3,
    0xA0,
    0xAB,
    0xA7,
    0xAF,
    0x5854,
}
"""What a Matroska file, its segment and its clusters consist of (RFC 9559)."""

_ID3, _ID3_HEADER = b"ID3", 10

_ID3V1_BYTES = 128
"""At the end of an MP3: programs take it away and leave the count as it was."""


def fault_of(encoded: bytes, name: str) -> str | None:
    """Return what is wrong with the bytes of a file, None where nothing is seen."""
    read = _READERS.get(name)
    return None if read is None else read(encoded)


def _lacks(encoded: bytes, promised: int) -> str | None:
    if promised <= len(encoded):
        return None
    return (
        f"is damaged or truncated: its headers promise {promised} bytes, and it has "
        f"{len(encoded)}; send all of it"
    )


def _mp4(encoded: bytes) -> str | None:
    at, end = 0, 0
    while at + 8 <= len(encoded):
        size, header = int.from_bytes(encoded[at : at + 4], "big"), 8
        if size == 1:
            size, header = int.from_bytes(encoded[at + 8 : at + 16], "big"), 16
        if size < header:  # 0: up to the end of the file
            break
        if encoded[at + 4 : at + 8] in _MEDIA_BOXES:
            end = at + size
        at += size
    return _lacks(encoded, end)


def _wav(encoded: bytes) -> str | None:
    found = {kind: (at, size) for kind, at, size in _chunks(encoded)}
    at, size = found.get(b"data", (0, 0))
    return _lacks(encoded, at + size) if size < _STREAMED_WAV else None


def _chunks(encoded: bytes) -> Iterator[tuple[bytes, int, int]]:
    at = 12
    while at + 8 <= len(encoded):
        kind, size = encoded[at : at + 4], int.from_bytes(encoded[at + 4 : at + 8], "little")
        yield kind, at + 8, size
        if kind == b"data":  # the last that matters; its size may be unknown
            return
        at += 8 + size + size % 2


def with_complete_samples(encoded: bytes) -> bytes:
    """Return a WAV without the part of a sample that it ends with, which players drop."""
    found = {kind: (at, size) for kind, at, size in _chunks(encoded)}
    (form, _), (at, size) = found.get(b"fmt ", (0, 0)), found.get(b"data", (0, 0))
    width = int.from_bytes(encoded[form + 12 : form + 14], "little")
    size = min(size or len(encoded), len(encoded) - at)
    if not at or encoded[form : form + 2] not in _PLAIN_WAVS or not width or size % width == 0:
        return encoded
    size -= size % width
    return encoded[: at - 4] + size.to_bytes(4, "little") + encoded[at : at + size]


def _mp3(encoded: bytes) -> str | None:
    """Compare the bytes that LAME's first frame counts."""
    first = encoded[:64]
    at = max(first.find(b"Xing"), first.find(b"Info"))
    if at < 0 or not first[at + 7] & 2:
        return None
    size_at = at + 8 + 4 * (first[at + 7] & 1)
    size = int.from_bytes(encoded[size_at : size_at + 4], "big")
    return _lacks(encoded, size - _ID3V1_BYTES)


def after_tags(encoded: bytes) -> int:
    """Return where the tags (ID3) end that a recording begins with."""
    at = 0
    while encoded[at : at + 3] == _ID3 and at + _ID3_HEADER <= len(encoded):
        size = encoded[at + 6 : at + _ID3_HEADER]
        at += _ID3_HEADER + sum((one & 0x7F) << 7 * place for place, one in enumerate(size[::-1]))
    return at


def _ogg(encoded: bytes) -> str | None:
    at, numbers, beginning = 0, dict[bytes, int](), True
    while at < len(encoded):
        if encoded[at : at + 4] != b"OggS":
            return f"is damaged: it has no Ogg page at byte {at}; send it again"
        count = encoded[at + 26] if at + _OGG_HEADER <= len(encoded) else 0
        body = at + _OGG_HEADER + count
        end = body + sum(encoded[at + _OGG_HEADER : body])
        if max(body, end) > len(encoded):
            return _lacks(encoded, max(body, end))
        page = encoded[at:end]
        crc_at = slice(_OGG_CRC_AT, _OGG_CRC_AT + 4)
        if _ogg_checksum(page) != int.from_bytes(page[crc_at], "little"):
            return f"is damaged: the checksum of the Ogg page at byte {at} is wrong; send it again"
        serial, number = page[14:18], int.from_bytes(page[18:22], "little")
        begins = bool(page[5] & _OGG_BEGINS)
        if begins and not beginning:
            return "is a chain of several; send each of them"
        beginning = begins
        if not begins and numbers.get(serial, number - 1) + 1 != number:
            return f"is damaged: Ogg pages are missing before byte {at}; send it again"
        numbers[serial] = number
        at = end
    return None


def _ogg_checksum(page: bytes) -> int:
    blank = page[:_OGG_CRC_AT] + bytes(4) + page[_OGG_CRC_AT + 4 :]
    found = zlib.crc32(blank.translate(_BACKWARDS), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(found.to_bytes(4, "little").translate(_BACKWARDS), "big")


def _matroska(encoded: bytes) -> str | None:
    for at, kind, body, end in _elements(encoded):
        if kind not in _ELEMENTS:
            return f"is damaged: it has no Matroska element at byte {at}; send it again"
        if end is None:
            continue
        if end > len(encoded):
            return _lacks(encoded, end)
        stated = encoded[body + 2 : body + 6]
        checked = kind in _MASTERS and encoded[body : body + 2] == _CHECKSUM
        if checked and zlib.crc32(encoded[body + 6 : end]) != int.from_bytes(stated, "little"):
            return f"is damaged: the checksum at byte {body} is wrong; send it again"
    return None


def _elements(encoded: bytes) -> Iterator[tuple[int, int, int, int | None]]:
    """Yield place, kind, content and end of each, those of segment and clusters too.

    The end is None where a program that could not seek did not know it.
    """
    at, last = 0, len(encoded)
    while at < last:
        size_at = at + 9 - (encoded[at].bit_length() or 8)
        first = encoded[size_at] if size_at < len(encoded) else 0
        bits = 7 * (9 - first.bit_length())
        body = size_at + bits // 7
        size = int.from_bytes(encoded[size_at:body], "big") - (1 << bits)
        kind = int.from_bytes(encoded[at:size_at], "big") if first else 0
        end = None if size == (1 << bits) - 1 else body + size
        yield at, kind, body, end
        if kind == _SEGMENT and end is not None:
            last = min(last, end)
        at = body if kind in {_SEGMENT, _CLUSTER} or end is None else end


_READERS: dict[str, Callable[[bytes], str | None]] = {
    "mp4": _mp4,
    "wav": _wav,
    "mp3": _mp3,
    "ogg": _ogg,
    "matroska": _matroska,
}
