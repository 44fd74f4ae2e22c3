"""What gateway and decoder say to each other over two pipes.

To the decoder: lengths, the pickled job, the file. Back: a length, a JSON header, the bytes of one
array. Nothing that a decoder says is unpickled: what has broken a decoder must not reach further.
"""

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.gateway.media.as_sent import no_values
from mm_runtime.images.plain import JPEG, PNG

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Decoded:
    """What is in a file."""

    array: Array
    """Its pixels or samples."""

    seconds: float | None = None
    """Length of a video; None: the file has none."""

    media_type: str = ""
    """What an image's file is that every reader shows so, and whose pixels are not sent; empty:
    another one, or not sought."""


Job = Callable[[bytes], Array | Decoded]
"""Picklable; a file -> what is in it."""

READY = b"+"
"""Said once, when everything is imported."""

TASK = struct.Struct("<IQI")
"""Bytes of the job, bytes of the file, seconds of processor time."""

HEADER = struct.Struct("<I")
MAX_HEADER_BYTES = 32 * 1024
"""A message in JSON has six bytes a character at the most."""
MAX_MESSAGE_CHARACTERS = 4096
_MOST_DIMENSIONS = 4

_MEDIA_TYPES = {name: name for name in ("", JPEG, PNG)}
_TYPES = {name: np.dtype(name) for name in ("uint8", "float32")}


class BrokenAnswerError(Exception):
    """A decoder answered what none of ours does."""


def array_header(decoded: Decoded) -> bytes:
    array = decoded.array
    said = {"seconds": decoded.seconds, "type": decoded.media_type}
    return _framed({"shape": array.shape, "dtype": array.dtype.name, **said})


def error_header(kind: str, message: str) -> bytes:
    return _framed({"error": kind, "message": message[:MAX_MESSAGE_CHARACTERS]})


def read_header(header: bytes, max_bytes: int) -> Decoded | tuple[str, str]:
    """Return what has an empty array to be filled, or kind and message of an error.

    Raises:
        BrokenAnswerError: neither, an array of more than `max_bytes`, or a length that none has.
    """
    try:
        found = json.loads(header)
        if "error" in found:
            return str(found["error"]), str(found["message"])
        shape = tuple(int(side) for side in found["shape"])
        kind = _TYPES[found["dtype"]]
        seconds = None if found.get("seconds") is None else float(found["seconds"])
        media_type = _MEDIA_TYPES[found.get("type", "")]
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenAnswerError(str(error)) from None
    if not 1 <= len(shape) <= _MOST_DIMENSIONS or min(shape) < 0:
        raise BrokenAnswerError(f"an array of shape {shape}")
    if math.prod(shape) * kind.itemsize > max_bytes:
        raise BrokenAnswerError(f"an array of shape {shape}, more than {max_bytes} bytes")
    if seconds is not None and not 0 < seconds < math.inf:
        raise BrokenAnswerError(f"a length of {seconds} seconds")
    made = no_values(shape, kind) if media_type else np.empty(shape, kind)
    return Decoded(made, seconds, media_type)


def _framed(content: dict[str, object]) -> bytes:
    text = json.dumps(content).encode()
    return HEADER.pack(len(text)) + text
