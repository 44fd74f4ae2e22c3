"""Reading a request's tensors: one prompt a request, so every value has a batch dimension of one.

Tensors are a mapping from name to array, as Triton hands them over; optional ones are absent.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mm_runtime.serving.errors import RequestError

Tensors = Mapping[str, NDArray[Any]]

BFLOAT16_BITS = np.dtype([("bfloat16", np.uint16)])
"""Type of arrays of bfloat16, which numpy does not have: an element is the bits of a value."""

_EXPONENTS = {np.dtype(np.float16): 0x7C00, BFLOAT16_BITS: 0x7F80}
"""Bits of a type that are all set in infinite values and NaN alone."""

_SIGN = 0x8000


def all_finite(values: NDArray[Any]) -> bool:
    """Return whether there is neither a NaN nor an infinite value.

    numpy converts each float16 for that: 2,880 rows of 4,096 take 23 ms. Of their bits the largest
    says it, once of those without a sign and once of all: nothing is copied.
    """
    exponent = _EXPONENTS.get(values.dtype)
    if exponent is None or not values.size:
        return values.size == 0 or bool(np.isfinite(values).all())
    bits = np.ascontiguousarray(values)
    positive, all_bits = bits.view(np.int16).max(), bits.view(np.uint16).max()
    return int(positive) < exponent and int(all_bits) < exponent | _SIGN


def of_bfloat16(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Return the values of `BFLOAT16_BITS`: they are the upper halves of float32."""
    wide = bits.view(np.uint16).astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def single(tensors: Tensors, name: str) -> NDArray[Any] | None:
    """Return a tensor without its batch dimension, or None when it is absent.

    Raises:
        RequestError: more than one prompt in the request.
    """
    if name not in tensors:
        return None
    tensor = tensors[name]
    if tensor.ndim == 0 or tensor.shape[0] != 1:
        raise RequestError(
            f"{name}: got shape {list(tensor.shape)}; the first dimension is the batch, "
            "send one prompt a request"
        )
    first: NDArray[Any] = tensor[0]
    return first


def scalar(tensors: Tensors, name: str) -> Any:
    """Return the one value of a tensor as a Python value, or None when it is absent.

    Raises:
        RequestError: it holds another number of values.
    """
    if name not in tensors:
        return None
    tensor = tensors[name]
    if tensor.size != 1:
        raise RequestError(f"{name}: got {tensor.size} values, expected one")
    return tensor.reshape(-1)[0].item() if tensor.dtype != np.object_ else tensor.reshape(-1)[0]


def required(tensors: Tensors, name: str) -> Any:
    """Return the one value of a tensor; absent is a RequestError, too."""
    value = scalar(tensors, name)
    if value is None:
        raise RequestError(f"{name} is missing")
    return value


def texts(tensors: Tensors, name: str) -> list[str]:
    """Return the strings of a tensor; none when it is absent."""
    if name not in tensors:
        return []
    return [_text(name, value) for value in tensors[name].reshape(-1).tolist()]


def _text(name: str, value: bytes | str) -> str:
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"{name}: not UTF-8: {error}") from error
