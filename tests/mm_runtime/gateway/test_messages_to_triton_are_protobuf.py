"""What the gateway writes to Triton is the message that protobuf would have written."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.grpc.service_pb2 import ModelInferRequest
from tritonclient.utils import serialize_byte_tensor

from mm_runtime.gateway.backends.triton_client import Tensor, _message

TEXT = np.array([["what is it? é".encode(), b""]], dtype=np.object_)
IMAGE = np.arange(40 * 50 * 3, dtype=np.uint32).astype(np.uint8).reshape(1, 1, 40, 50, 3)
TENSORS = {
    "none": [],
    "texts": [TEXT],
    "numbers": [np.array([[7]], np.int32), np.array([[True]]), np.array([[0.5]], np.float32)],
    "empty": [np.zeros((1, 0), np.float32)],
    "image": [TEXT, IMAGE],
    "a part of an image": [IMAGE[:, :, ::2, ::-1]],
    "lengths of two and three bytes": [np.zeros(127, np.uint8), *map(np.zeros, (16, 17, 70_000))],
}


@pytest.mark.parametrize("values", TENSORS.values(), ids=TENSORS)
@pytest.mark.parametrize("outputs", [(), ("output_ids", "sequence_length")], ids=["all", "two"])
def test_the_message_is_the_same(values: Sequence[NDArray[Any]], outputs: Sequence[str]) -> None:
    """Names, shapes, types and contents of all tensors, in their order."""
    inputs = [Tensor(f"input_{number}", one) for number, one in enumerate(values)]
    found = ModelInferRequest.FromString(_message("ensemble", "request", inputs, outputs))
    assert (found.model_name, found.id) == ("ensemble", "request")
    assert [one.name for one in found.outputs] == list(outputs)
    assert [one.name for one in found.inputs] == [one.name for one in inputs]
    assert [tuple(one.shape) for one in found.inputs] == [one.shape for one in values]
    assert list(found.raw_input_contents) == [
        serialize_byte_tensor(one).item() if one.dtype == np.object_ else one.tobytes()
        for one in values
    ]
