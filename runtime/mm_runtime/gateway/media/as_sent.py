"""Pixels of an image with the file that they were decoded from."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class AsSent(np.ndarray[Any, np.dtype[np.uint8]]):
    """Pixels that every reader of `file` shows; views of them have none."""

    file: bytes = b""
    media_type: str = ""


def as_sent(pixels: NDArray[np.uint8], file: bytes, media_type: str) -> AsSent:
    """Return pixels with their file."""
    found = pixels.view(AsSent)
    found.file, found.media_type = file, media_type
    return found


class _Held(Protocol):
    @property
    def nbytes(self) -> int: ...


def sent_bytes(*media: NDArray[Any]) -> int:
    """Return the size of files; of what has none, that of its values."""
    return sum((len(one.file) if isinstance(one, AsSent) else 0) or one.nbytes for one in media)


def held_bytes(media: _Held) -> int:
    """Return the memory of pixels or samples, and of their file."""
    return media.nbytes + (len(media.file) if isinstance(media, AsSent) else 0)
