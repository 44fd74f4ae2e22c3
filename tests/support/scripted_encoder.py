"""A gRPC server that speaks Triton's protocol and answers what a test wants of an encoder."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype, serialize_byte_tensor


@dataclass(frozen=True)
class Sent:
    """A tensor as Triton sends it, right or not."""

    datatype: str
    shape: tuple[int, ...]
    content: bytes

    @classmethod
    def of(cls, array: NDArray[Any]) -> "Sent":
        strings = array.dtype == np.object_
        content = serialize_byte_tensor(array).item() if strings else array.tobytes()
        return cls(np_to_triton_dtype(array.dtype), array.shape, content)


Tensors = Mapping[str, NDArray[Any]]
Answer = Mapping[str, "NDArray[Any] | Sent"]


def message_of(answer: Answer) -> Any:
    response = service_pb2.ModelInferResponse(model_name="vision_encoder", model_version="1")
    for name, value in answer.items():
        sent = value if isinstance(value, Sent) else Sent.of(value)
        output = response.outputs.add()
        output.name, output.datatype = name, sent.datatype
        output.shape.extend(sent.shape)
        response.raw_output_contents.append(sent.content)
    return response


class _Servicer:
    def __init__(self, answer: Callable[[], Answer | bytes]) -> None:
        self.answer = answer
        self.requested = 0
        self.types: dict[str, str] = {}
        """Name of each input of the last request -> Triton's name of its type."""

        self.contents: dict[str, bytes] = {}
        """Name of each input of the last request -> its bytes."""

    def infer(self, request: Any, _: grpc.ServicerContext) -> bytes:
        self.requested += 1
        self.types = {one.name: one.datatype for one in request.inputs}
        self.contents = dict(
            zip(self.types, (bytes(one) for one in request.raw_input_contents), strict=True)
        )
        answer = self.answer()
        return answer if isinstance(answer, bytes) else message_of(answer).SerializeToString()


@contextmanager
def scripted_encoder(answer: Callable[[], Answer | bytes]) -> Iterator[tuple[str, _Servicer]]:
    servicer = _Servicer(answer)
    server = grpc.server(ThreadPoolExecutor(4))
    method = grpc.unary_unary_rpc_method_handler(
        servicer.infer, request_deserializer=service_pb2.ModelInferRequest.FromString
    )
    handlers = grpc.method_handlers_generic_handler(
        "inference.GRPCInferenceService", {"ModelInfer": method}
    )
    server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", servicer
    finally:
        server.stop(0).wait(10)
