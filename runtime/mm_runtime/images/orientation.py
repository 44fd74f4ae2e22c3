"""How a camera was held, as an image's metadata states it: the only part of Exif that is read.

Pillow's own reader copies the data of every entry: two thousand entries that point at the same
megabyte are two gigabytes.
"""

from collections.abc import Mapping

MAX_BYTES = 64 * 1024
"""Size of Exif that is read at all: the largest segment of a JPEG, where cameras write it."""

UPRIGHT = 1
_LAST = 8
_TAG = 0x0112
_PREFIX = b"Exif\0\0"
_ENTRY_BYTES = 12
_ORDERS = {b"II": "little", b"MM": "big"}


def orientation_of(metadata: Mapping[str | tuple[int, int], object]) -> int:
    """Return the orientation, 1 to 8, that the Exif of `Image.info` states; 1 is upright.

    What is damaged or larger than `MAX_BYTES` is as if it were not there.
    """
    exif = metadata.get("exif")
    found = _in_exif(exif) if isinstance(exif, bytes) else None
    return UPRIGHT if found is None else found


def _in_exif(exif: bytes) -> int | None:
    if len(exif) > MAX_BYTES:
        return None
    while exif.startswith(_PREFIX):
        exif = exif[len(_PREFIX) :]
    order = _ORDERS.get(exif[:2])
    if order is None:
        return None

    def number(at: int, size: int) -> int:
        return int.from_bytes(exif[at : at + size], "little" if order == "little" else "big")

    directory = number(4, 4)
    for entry in range(number(directory, 2)):
        at = directory + 2 + entry * _ENTRY_BYTES
        if at >= len(exif):
            return None
        if number(at, 2) == _TAG:
            found = number(at + 8, 2)
            return found if UPRIGHT <= found <= _LAST else None
    return None
