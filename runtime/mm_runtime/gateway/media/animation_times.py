"""PURE: how long each frame of an animation is shown, which decoders say after decoding them."""

from collections.abc import Iterator

from mm_runtime.images import parts

_LEAST, _SHOWN = 0.01, 0.1
"""Seconds: what says at most the first is shown for the second, as in Firefox and Chromium."""


def durations_of(encoded: bytes) -> list[float]:
    """Return the seconds of each frame of a GIF, WebP or PNG, as a browser shows them.

    Empty: it is another file, one image, or says nothing at all about times.
    """
    if encoded[:3] == b"GIF":
        said = [*_gif(encoded)]
    elif encoded[8:12] == b"WEBP":
        said = [
            int.from_bytes(encoded[at + 20 : at + 23], "little") / 1000
            for at, _, kind in parts.webp_chunks(encoded)
            if kind == b"ANMF"
        ]
    else:
        said = [
            int.from_bytes(encoded[at + 28 : at + 30], "big")
            / (int.from_bytes(encoded[at + 30 : at + 32], "big") or 100)
            for at, _, kind in parts.png_chunks(encoded)
            if kind == b"fcTL"
        ]
    return [one if one > _LEAST else _SHOWN for one in said] if any(said) else []


def _gif(encoded: bytes) -> Iterator[float]:
    at, delay = parts.GIF_HEADER_BYTES + parts.palette_bytes(encoded[10:11]), 0.0
    while at + 6 <= len(encoded):
        kind = encoded[at]
        if kind == parts.GIF_EXTENSION:
            if encoded[at + 1] == 0xF9:  # noqa: PLR2004  # it controls the next image
                delay = int.from_bytes(encoded[at + 4 : at + 6], "little") / 100
            at = parts.skip_blocks(encoded, at + 2)[0]
        elif kind == parts.GIF_IMAGE:
            yield delay
            begin = at + parts.GIF_IMAGE_BYTES + parts.palette_bytes(encoded[at + 9 : at + 10]) + 1
            at, delay = parts.skip_blocks(encoded, begin)[0], 0.0
        else:
            return
