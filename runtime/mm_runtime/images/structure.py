"""How the file of an image is built: what a decoder would spend hours or gigabytes on is refused.

Pure functions over bytes, at the speed of a search: nothing is decoded and nothing is copied.
"""

import re
from collections.abc import Iterator

from mm_runtime.images import parts

MAX_SCANS = 100
"""Scans of a progressive JPEG. libjpeg decodes all pixels for each: 43 ms a scan of 49 million
pixels, for 75 bytes of file. Encoders write about ten, mozjpeg up to twenty."""

MAX_SEGMENTS = 4096
"""Segments of a JPEG besides its scans: 20 MB of metadata in segments of 64 kB are 320."""

MAX_JUNK_BYTES = 64 * 1024
"""Junk of a JPEG between the segments before its first scan, where Pillow looks for the next one
byte by byte: fifteen seconds for 20 MB. Encoders write none, or a few bytes of padding."""

MAX_CHUNKS = 20_000
"""Chunks of a PNG or WebP, each a turn of an interpreted loop; libpng writes 20 MB in 2,500."""

MAX_COMMENT_BLOCKS = 1024
"""Blocks of a GIF's comments: a quarter of a megabyte. Pillow joins them one by one, which copies
800 GB for 20 MB."""

_SCAN, _END = 0xDA, 0xD9
_BARE = frozenset({0x01, 0xD8, _END})
"""JPEG markers without a length; those that divide a scan (D0 to D7) are not searched for."""

_RESERVED = frozenset({0xC8, *range(0xF0, 0xFE)})
"""No decoder knows them, and readers differ about their length."""

# Of several FF the last one counts; a pattern for all of them would go through them once for each.
NEXT_MARKER = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])")

_GIF_COMMENT = b"\xfe"

Size = tuple[int, int]


class StructureError(ValueError):
    """The file is built as no encoder builds it. The message is for the client."""


def check_structure(encoded: bytes) -> None:
    """Check the parts of a JPEG, PNG, WebP or GIF; other bytes pass, no decoder takes them."""
    if encoded.startswith(b"\xff\xd8\xff"):
        _check_jpeg(encoded)
    elif encoded.startswith(parts.PNG_SIGNATURE):
        _check_chunks(parts.png_chunks(encoded))
    elif parts.is_webp(encoded):
        _check_chunks(parts.webp_chunks(encoded))
    elif encoded.startswith((b"GIF87a", b"GIF89a")):
        _check_gif(encoded)


def webp_canvas(encoded: bytes) -> Size | None:
    """Return width and height of an extended WebP, whose reader allocates them while it opens."""
    if not parts.is_webp(encoded) or encoded[12:16] != b"VP8X":
        return None
    width, height = (1 + int.from_bytes(encoded[at : at + 3], "little") for at in (24, 27))
    return width, height


def _check_jpeg(encoded: bytes) -> None:
    scans = segments = junk = 0
    at = 2
    while (found := NEXT_MARKER.search(encoded, at)) is not None:
        if not scans:
            junk += found.start() - at
        code, at = found[1][0], found.end()
        if code == _END and scans:
            break  # telephones append videos; no decoder reads them
        if code in _RESERVED:
            raise StructureError(f"the image is damaged: a JPEG has no segment FF {code:02X}")
        if code not in _BARE:
            at += max(2, int.from_bytes(encoded[at : at + 2], "big"))
        scans += code == _SCAN
        segments += code != _SCAN
        if scans > MAX_SCANS:
            raise StructureError(
                f"the image is a JPEG of more than {MAX_SCANS} scans; save it as a baseline JPEG, "
                "or with the usual ten scans of a progressive one"
            )
        if segments > MAX_SEGMENTS:
            raise StructureError(
                f"the image is a JPEG of more than {MAX_SEGMENTS} segments; save it again, without "
                "metadata"
            )
    if not scans:
        junk += len(encoded) - at
    if junk > MAX_JUNK_BYTES:
        raise StructureError(
            f"the image is damaged: a JPEG with more than {MAX_JUNK_BYTES} bytes between its "
            "segments"
        )


def _check_chunks(chunks: Iterator[object]) -> None:
    if sum(1 for _ in chunks) > MAX_CHUNKS:
        raise StructureError(
            f"the image has more than {MAX_CHUNKS} chunks; save it again with larger ones"
        )


def _check_gif(encoded: bytes) -> None:
    at = parts.GIF_HEADER_BYTES + parts.palette_bytes(encoded[10:11])
    blocks = comments = 0
    while at < len(encoded) and encoded[at] != parts.GIF_END:
        if encoded[at] == parts.GIF_EXTENSION:
            label = encoded[at + 1 : at + 2]
            at, found = parts.skip_blocks(encoded, at + 2)
            if label == _GIF_COMMENT:
                comments += found + 1
            elif not found:
                # Pillow reads on after an extension without its first block.
                at, found = parts.skip_blocks(encoded, at)
        elif encoded[at] == parts.GIF_IMAGE:
            data = at + parts.GIF_IMAGE_BYTES + parts.palette_bytes(encoded[at + 9 : at + 10]) + 1
            at, found = parts.skip_blocks(encoded, data)
        else:
            # What readers skip byte by byte in search of the next image.
            at, found = at + 1, 0
        blocks += found + 1
        if comments > MAX_COMMENT_BLOCKS or blocks > parts.MAX_BLOCKS:
            kind, most = "", parts.MAX_BLOCKS
            if comments > MAX_COMMENT_BLOCKS:
                kind, most = "comment ", MAX_COMMENT_BLOCKS
            raise StructureError(
                f"the image is a GIF of more than {most} {kind}blocks; save it again, without "
                "comments"
            )
