"""Requests of Triton are the bytes of tritonclient's; what is no answer is refused, not read."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from tritonclient.grpc import InferInput, InferRequestedOutput
from tritonclient.grpc._utils import _get_inference_request
from tritonclient.utils import np_to_triton_dtype

from mm_runtime.serving.messages import request_of, tensors_of
from mm_runtime.serving.tensors import BFLOAT16_BITS
from support.cases import cases
from support.scripted_encoder import Sent, message_of

TYPES = ("f2", "f4", "u1", "i4", "i8", "?")
TENSORS = st.sampled_from(TYPES).flatmap(
    lambda one: arrays.arrays(one, arrays.array_shapes(max_dims=5, max_side=4))
)
TEXTS = st.lists(st.binary(max_size=200), min_size=1, max_size=3).map(
    lambda texts: np.array([texts], dtype=np.object_)
)


IMAGE = np.arange(40 * 50 * 3, dtype=np.uint32).astype(np.uint8).reshape(1, 1, 40, 50, 3)
LENGTHS = [np.zeros(127, np.uint8), *map(np.zeros, (16, 17, 70_000))]


def expected(inputs: dict[str, NDArray[Any]], outputs: Sequence[str], request_id: str) -> bytes:
    tensors = []
    for name, values in inputs.items():
        tensor = InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
        tensor.set_data_from_numpy(np.ascontiguousarray(values))
        tensors.append(tensor)
    message: bytes = _get_inference_request(
        model_name="vision_encoder",
        inputs=tensors,
        model_version="",
        request_id=request_id,
        outputs=[InferRequestedOutput(one) for one in outputs],
        sequence_id=0,
        sequence_start=False,
        sequence_end=False,
        priority=0,
        timeout=None,
        parameters=None,
    ).SerializeToString()
    return message


@given(TENSORS, TENSORS, TEXTS)
def test_requests_are_tritonclients(
    one: NDArray[Any], other: NDArray[Any], texts: NDArray[Any]
) -> None:
    inputs = {"IMAGE": one, "others": other.T, "expected_identity": texts}
    outputs = ["TABLE", "ROWS"]
    assert request_of("vision_encoder", inputs, outputs) == expected(inputs, outputs, "")


@cases(
    "inputs",
    {
        "none": {},
        "empty": {"empty": np.zeros((1, 0), np.float32)},
        "a part of an image": {"image": IMAGE, "part": IMAGE[:, :, ::2, ::-1]},
        "lengths of two and three bytes": {str(len(one)): one for one in LENGTHS},
    },
)
def test_the_gateways_are(inputs: dict[str, NDArray[Any]]) -> None:
    """They have an id and name no outputs, and images are larger."""
    assert request_of("vision_encoder", inputs, (), "id") == expected(inputs, (), "id")


@given(TENSORS, TEXTS)
def test_answers_are_read(values: NDArray[Any], texts: NDArray[Any]) -> None:
    bits = np.arange(6, dtype=np.uint16).reshape(1, 2, 3)
    sent = Sent("BF16", bits.shape, bits.tobytes())
    message = message_of({"VALUES": values, "TEXTS": texts, "BITS": sent}).SerializeToString()
    found = tensors_of(message)

    assert found.keys() == {"VALUES", "TEXTS", "BITS"}
    assert found["VALUES"].dtype == values.dtype
    assert found["VALUES"].tobytes() == values.tobytes()
    assert found["VALUES"].shape == values.shape
    assert found["TEXTS"].tolist() == texts.tolist()
    assert found["BITS"].dtype == BFLOAT16_BITS
    assert found["BITS"].view(np.uint16).tolist() == bits.tolist()


ANSWER: bytes = message_of(
    {"TABLE": np.ones((1, 4, 8), np.float16), "NAME": np.array([[b"a" * 64]], dtype=np.object_)}
).SerializeToString()


@pytest.mark.parametrize("end", range(1, len(ANSWER)))
def test_cut_answers_are_refused(end: int) -> None:
    try:
        found = tensors_of(ANSWER[:end])
    except ValueError:
        return
    assert found == {}


@given(st.binary(max_size=400), st.integers(0, len(ANSWER)))
def test_other_bytes_are_refused_at_the_most(strange: bytes, at: int) -> None:
    for message in (strange, ANSWER[:at] + strange + ANSWER[at:]):
        with suppress(ValueError):
            tensors_of(message)


@cases(
    "sent reason",
    {
        "too few": (Sent("FP16", (1, 4), b"1234567"), "7 bytes"),
        "a negative length": (Sent("FP16", (1, -1), b"12"), "2 bytes"),
        "too many": (Sent("BF16", (1, 4), b"1" * 10), "10 bytes"),
        "an unknown type": (Sent("FP8", (1, 4), b"1234"), "4 bytes for FP8"),
        "a cut text": (Sent("BYTES", (1, 1), b"\xff\0\0\0a"), "no texts"),
        "too few texts": (Sent("BYTES", (1, 2), b"\1\0\0\0a"), "no texts"),
    },
)
def test_shapes_and_bytes_must_agree(sent: Sent, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        tensors_of(message_of({"TABLE": sent}).SerializeToString())


def test_each_tensor_has_bytes() -> None:
    message = message_of({"TABLE": np.ones(3, np.float16)})
    message.raw_output_contents.append(b"12")
    with pytest.raises(ValueError, match="got 1 tensors and the bytes of 2"):
        tensors_of(message.SerializeToString())
