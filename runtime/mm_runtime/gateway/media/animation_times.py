"""PURE: how long each frame of an animation is shown, which decoders say after decoding them."""

from collections.abc import Iterator

_LEAST, _SHOWN = 0.01, 0.1
"""Seconds: what says at most the first is shown for the second, as in Firefox and Chromium."""

_GIF_HEADER_BYTES, _GIF_IMAGE_BYTES = 13, 10
_PALETTE = 0x80


def durations_of(encoded: bytes) -> list[float]:
    """Return the seconds of each frame of a GIF, WebP or PNG, as a browser shows them.

    Empty: it is another file, one image, or says nothing at all about times.
    """
    if encoded[:3] == b"GIF":
        said = [*_gif(encoded)]
    elif encoded[8:12] == b"WEBP":
        said = [
            int.from_bytes(encoded[at + 12 : at + 15], "little") / 1000
            for at in _chunks(encoded, 12, b"ANMF", "little")
        ]
    else:
        said = [
            int.from_bytes(encoded[at + 20 : at + 22], "big")
            / (int.from_bytes(encoded[at + 22 : at + 24], "big") or 100)
            for at in _chunks(encoded, 8, b"fcTL", "big")
        ]
    return [one if one > _LEAST else _SHOWN for one in said] if any(said) else []


def _chunks(encoded: bytes, at: int, kind: bytes, order: str) -> Iterator[int]:
    """Yield where the content of each chunk of a kind begins; PNG has its length before its name.

    Their number is bounded when the image is opened.
    """
    webp = order == "little"
    while at + 8 <= len(encoded):
        first, second = encoded[at : at + 4], encoded[at + 4 : at + 8]
        length = int.from_bytes(second, "little") if webp else int.from_bytes(first, "big")
        if (first if webp else second) == kind:
            yield at + 8
        at += 8 + length + (length % 2 if webp else 4)


def _gif(encoded: bytes) -> Iterator[float]:
    at, delay = _GIF_HEADER_BYTES + _palette(encoded[10:11]), 0.0
    while at + 6 <= len(encoded):
        kind = encoded[at]
        if kind == 0x21:  # noqa: PLR2004  # an extension
            if encoded[at + 1] == 0xF9:  # noqa: PLR2004  # it controls the next image
                delay = int.from_bytes(encoded[at + 4 : at + 6], "little") / 100
            at = _after(encoded, at + 2)
        elif kind == 0x2C:  # noqa: PLR2004  # an image
            yield delay
            palette = _palette(encoded[at + 9 : at + 10])
            at, delay = _after(encoded, at + _GIF_IMAGE_BYTES + palette + 1), 0.0
        else:
            return


def _palette(flags: bytes) -> int:
    return 3 * 2 ** (1 + flags[0] % 8) if flags and flags[0] & _PALETTE else 0


def _after(encoded: bytes, at: int) -> int:
    while at < len(encoded) and encoded[at]:
        at += 1 + encoded[at]
    return at + 1
