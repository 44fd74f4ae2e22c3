"""An image that goes to the server as the file that it came as."""

import asyncio
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.media.frames import Video

Check = asyncio.Future[Any]
"""Ends when a file was read to its end; raises what is wrong with it."""


class AsSent(np.ndarray[Any, np.dtype[np.uint8]]):
    """The shape of the pixels that every reader of `file` shows: their values are not held."""

    file: bytes = b""
    media_type: str = ""
    check: Check | None = None
    """What reads `file`; None: it was read before."""


def as_sent(
    shape: tuple[int, ...],
    file: bytes,
    media_type: str,
    check: Check | None = None,
) -> AsSent:
    """Return a file with the shape of its pixels, uint8[height, width, 3]."""
    found = AsSent(shape, np.uint8, b"\0", strides=(0,) * len(shape))
    found.file, found.media_type, found.check = file, media_type, check
    return found


def no_values(shape: tuple[int, ...], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return an array that takes no memory, of zeros that cannot be written."""
    return np.ndarray(shape, kind, bytes(kind.itemsize), strides=(0,) * len(shape))


def held_bytes(*media: NDArray[Any] | Video) -> int:
    """Return the memory of pixels and samples; of an image that goes as it came, of its file."""
    return sum(len(one.file) if isinstance(one, AsSent) else one.nbytes for one in media)
