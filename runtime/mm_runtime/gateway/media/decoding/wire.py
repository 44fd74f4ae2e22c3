"""What gateway and decoder say to each other over two pipes.

To the decoder: lengths, the pickled job, the file. Back: a length, a JSON header, the bytes of one
array. Nothing that a decoder says is unpickled: what has broken a decoder must not reach further.
"""

import json
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Job = Callable[[bytes], Array]
"""Picklable; a file -> its pixels or samples."""

READY = b"+"
"""Said once, when everything is imported."""

TASK = struct.Struct("<IQI")
"""Bytes of the job, bytes of the file, seconds of processor time."""

HEADER = struct.Struct("<I")
MAX_HEADER_BYTES = 64 * 1024
MAX_MESSAGE_CHARACTERS = 4096
_MOST_DIMENSIONS = 4

_TYPES = {name: np.dtype(name) for name in ("uint8", "float32")}


class BrokenAnswerError(Exception):
    """A decoder answered what none of ours does."""


def array_header(array: Array) -> bytes:
    """Return what is said before the bytes of an array."""
    return _framed({"shape": array.shape, "dtype": array.dtype.name})


def error_header(kind: str, message: str) -> bytes:
    """Return what is said instead of an array."""
    return _framed({"error": kind, "message": message[:MAX_MESSAGE_CHARACTERS]})


def read_header(header: bytes, max_bytes: int) -> Array | tuple[str, str]:
    """Return an empty array to be filled, or kind and message of an error.

    Raises:
        BrokenAnswerError: neither, or an array of more than `max_bytes`.
    """
    try:
        found = json.loads(header)
        if "error" in found:
            return str(found["error"]), str(found["message"])
        shape = tuple(int(side) for side in found["shape"])
        kind = _TYPES[found["dtype"]]
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenAnswerError(str(error)) from None
    if not 1 <= len(shape) <= _MOST_DIMENSIONS or min(shape) < 0:
        raise BrokenAnswerError(f"an array of shape {shape}")
    if math.prod(shape) * kind.itemsize > max_bytes:
        raise BrokenAnswerError(f"an array of shape {shape}, more than {max_bytes} bytes")
    return np.empty(shape, kind)


def _framed(content: dict[str, object]) -> bytes:
    text = json.dumps(content).encode()
    return HEADER.pack(len(text)) + text
