"""PURE: a request of Triton as the bytes of one gRPC message, and an answer's bytes as tensors.

The bytes are those of tritonclient. It copies pixels and features several times between arrays and
messages, into new pages each: an image of 1024 x 1024 is 6.6 ms so, and 1.8 here. Pixels are copied
into the message once, and features stay in theirs. protobuf reads and writes what is around them,
numbers are https://protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from struct import Struct
from struct import error as StructError  # noqa: N812 (an exception by its name)
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no stubs
from numpy.typing import NDArray
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse
from tritonclient.utils import (
    InferenceServerException,
    deserialize_bytes_tensor,
    np_to_triton_dtype,
    triton_to_np_dtype,
)

from mm_runtime.serving.tensors import BFLOAT16_BITS, Tensors

_BYTES = 2
"""protobuf's wire type of bytes, texts and messages: a length before them."""

_SEVEN_BITS, _MORE = 0x7F, 0x80
"""Bits of a byte of a number: what it holds, and whether another one follows."""

_LENGTH = Struct("<I")
"""In front of each text of a tensor."""

_CONTENT = bytes([ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER << 3 | _BYTES])
"""In front of each tensor's content, in the message's last field."""

_COPIED_BYTES = 4096
"""Contents below are cheaper to copy than to look at."""

_OTHERS = {0: 0, 1: 8, 5: 4}
"""Wire type of numbers -> their bytes; 0: as many as say that one follows."""


def request_of(model: str, inputs: Tensors, outputs: Sequence[str], request_id: str = "") -> bytes:
    """Return the message that requests outputs of a model.

    `inputs`: with the batch dimension; of texts arrays of bytes objects. `outputs`: names of the
    tensors that are wanted; none named: all.
    """
    head = ModelInferRequest(model_name=model, id=request_id)
    contents: list[bytes | memoryview] = []
    for name, values in inputs.items():
        kind = np_to_triton_dtype(values.dtype)
        head.inputs.add(name=name, datatype=kind, shape=values.shape)
        contents.append(_content(values))
    for name in outputs:
        head.outputs.add(name=name)
    parts: list[bytes | memoryview] = [head.SerializeToString()]
    for content in contents:
        parts += [_CONTENT, _number(len(content)), content]
    return b"".join(parts)


def tensors_of(message: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors of an answer; their memory is the message's.

    Raises:
        ValueError: it is no answer, or a tensor's bytes are not those of its type and shape.
    """
    field = ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER
    contents, around = [], []
    for number, field_bytes, content in _fields(memoryview(message)):
        if number == field:
            contents.append(content)
        else:
            around.append(field_bytes)
    try:
        head = ModelInferResponse.FromString(b"".join(around))
    except DecodeError as error:
        raise ValueError(f"no answer of Triton: {error}") from error
    if len(contents) != len(head.outputs):
        raise ValueError(f"got {len(head.outputs)} tensors and the bytes of {len(contents)}")
    return {
        output.name: _array(output, content)
        for output, content in zip(head.outputs, contents, strict=True)
    }


def _content(values: NDArray[Any]) -> bytes | memoryview:
    if values.dtype == np.object_:
        return b"".join([_LENGTH.pack(len(text)) + text for text in values.flat])
    if values.nbytes < _COPIED_BYTES:
        return values.tobytes()
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _array(output: Any, content: memoryview) -> NDArray[Any]:
    shape, kind = tuple(output.shape), output.datatype
    if kind == "BYTES":
        return _texts(output.name, shape, content)
    dtype = np.dtype(_DTYPES.get(kind) or triton_to_np_dtype(kind) or np.void)
    if min(shape, default=1) < 0 or dtype.itemsize * prod(shape) != len(content):
        raise ValueError(f"{output.name}: got {len(content)} bytes for {kind} {list(shape)}")
    return np.frombuffer(content, dtype).reshape(shape)


_DTYPES: Mapping[str, np.dtype[Any]] = {"BF16": BFLOAT16_BITS}
"""Where tritonclient has another one: in each version another for bfloat16."""


def _texts(name: str, shape: tuple[int, ...], content: memoryview) -> NDArray[Any]:
    try:
        texts: NDArray[Any] = deserialize_bytes_tensor(bytes(content))
        return texts.reshape(shape)
    except (InferenceServerException, ValueError, StructError) as error:
        raise ValueError(f"{name}: no texts of shape {list(shape)}: {error}") from error


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Yield number, all bytes and content of each field of a message; of a cut one what is there.

    Raises:
        ValueError: it ends within a number, or has a field of another kind.
    """
    at = 0
    while at < len(message):
        begin = at
        tag, at = _read_number(message, at)
        if tag & 7 == _BYTES:
            length, at = _read_number(message, at)
        elif tag & 7 in _OTHERS:
            length = _OTHERS[tag & 7] or _read_number(message, at)[1] - at
        else:
            raise ValueError(f"a field of wire type {tag & 7}")
        content = message[at : at + length]
        at += length
        yield tag >> 3, message[begin:at], content


def _number(number: int) -> bytes:
    """Return a number of at least 0: seven bits a byte, the lowest first."""
    written = bytearray()
    while number > _SEVEN_BITS:
        written.append(number & _SEVEN_BITS | _MORE)
        number >>= 7
    written.append(number)
    return bytes(written)


def _read_number(message: memoryview, at: int) -> tuple[int, int]:
    """Return a number of 64 bits at the most, and where what follows it begins."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("it ends within a number")
        byte = message[at]
        at += 1
        value |= (byte & _SEVEN_BITS) << shift
        if byte <= _SEVEN_BITS:
            return value, at
    raise ValueError("a number is too long")
