"""PURE: a request of Triton as the bytes of one gRPC message, and an answer's bytes as tensors.

The bytes are those of tritonclient, which copies pixels and features several times more between
arrays and messages.
"""

from collections.abc import Mapping, Sequence
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

_LENGTH = Struct("<I")
"""In front of each text of a tensor."""


def request_of(model: str, inputs: Tensors, outputs: Sequence[str], request_id: str = "") -> bytes:
    """Return the message that requests outputs of a model.

    `inputs`: with the batch dimension; of texts arrays of bytes objects. `outputs`: names of the
    tensors that are wanted; none named: all.
    """
    request = ModelInferRequest(model_name=model, id=request_id)
    for name, values in inputs.items():
        kind = np_to_triton_dtype(values.dtype)
        request.inputs.add(name=name, datatype=kind, shape=values.shape)
        request.raw_input_contents.append(_content(values))
    for name in outputs:
        request.outputs.add(name=name)
    message: bytes = request.SerializeToString()
    return message


def tensors_of(message: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors of an answer.

    Raises:
        ValueError: it is no answer, or a tensor's bytes are not those of its type and shape.
    """
    try:
        answer = ModelInferResponse.FromString(message)
    except DecodeError as error:
        raise ValueError(f"no answer of Triton: {error}") from error
    outputs, contents = answer.outputs, answer.raw_output_contents
    if len(contents) != len(outputs):
        raise ValueError(f"got {len(outputs)} tensors and the bytes of {len(contents)}")
    return {
        output.name: _array(output, content)
        for output, content in zip(outputs, contents, strict=True)
    }


def _content(values: NDArray[Any]) -> bytes:
    if values.dtype == np.object_:
        return b"".join([_LENGTH.pack(len(text)) + text for text in values.flat])
    return values.tobytes()


def _array(output: Any, content: bytes) -> NDArray[Any]:
    shape, kind = tuple(output.shape), output.datatype
    if kind == "BYTES":
        return _texts(output.name, shape, content)
    dtype = np.dtype(_DTYPES.get(kind) or triton_to_np_dtype(kind) or np.void)
    if min(shape, default=1) < 0 or dtype.itemsize * prod(shape) != len(content):
        raise ValueError(f"{output.name}: got {len(content)} bytes for {kind} {list(shape)}")
    return np.frombuffer(content, dtype).reshape(shape)


_DTYPES: Mapping[str, np.dtype[Any]] = {"BF16": BFLOAT16_BITS}
"""Where tritonclient has another one: in each version another for bfloat16."""


def _texts(name: str, shape: tuple[int, ...], content: bytes) -> NDArray[Any]:
    try:
        texts: NDArray[Any] = deserialize_bytes_tensor(content)
        return texts.reshape(shape)
    except (InferenceServerException, ValueError, StructError) as error:
        raise ValueError(f"{name}: no texts of shape {list(shape)}: {error}") from error
