"""Triton's gRPC as the gateway calls it: one message out, answers in, over one channel.

Not tritonclient's own client: its `stream_infer` is made for many requests on one stream, and
spends a task, three operations of the channel and three copies of all tensors on the one that is
sent here. Written to the wire are the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from numpy.typing import NDArray
from tritonclient.grpc import InferResult
from tritonclient.grpc.service_pb2 import (
    ModelReadyRequest,
    ModelStreamInferResponse,
    ServerReadyRequest,
)
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from mm_runtime.base.grpc_channel import CHANNEL
from mm_runtime.serving.messages import request_of

_STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input of a request.

    Attributes:
        name: of the model's input.
        values: with the batch dimension; of texts an array of bytes objects.
    """

    name: str
    values: NDArray[Any]


class TritonClient:
    """A channel to one server, opened by its first call."""

    def __init__(self, address: str) -> None:
        """Prepare calls to host:port."""
        self._channel = grpc.aio.insecure_channel(address, options=CHANNEL)
        self._stub = GRPCInferenceServiceStub(self._channel)
        # Of the service a stream of requests. Sent as the one message of a call it takes one
        # operation with the end of the stream, and no task that waits for more.
        self._stream = self._channel.unary_stream(
            _STREAM,
            request_serializer=None,  # `request_of` has done it
            response_deserializer=ModelStreamInferResponse.FromString,
        )

    async def close(self) -> None:
        await self._channel.close()

    async def is_ready(self, model: str, seconds: float) -> bool:
        """Return whether the server and a model are ready.

        Raises:
            grpc.aio.AioRpcError: the server does not answer, in so many seconds for each.
        """
        server = await self._stub.ServerReady(ServerReadyRequest(), timeout=seconds)
        if not server.ready:
            return False
        found = await self._stub.ModelReady(ModelReadyRequest(name=model), timeout=seconds)
        return bool(found.ready)

    def call(
        self,
        model: str,
        request_id: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[str] = (),
        trace: Sequence[tuple[str, str]] = (),
    ) -> Any:
        """Send one request; return grpc's call, an iterator of `ModelStreamInferResponse`.

        The server ends it after its last answer.

        `outputs`: that are wanted; none named: all. `trace`: headers that continue a trace.
        """
        # Without the header `triton_grpc_error`, which kills the server: see `errors`.
        tensors = {one.name: one.values for one in inputs}
        return self._stream(request_of(model, tensors, outputs, request_id), metadata=trace or None)


def tensor_of(response: Any, name: str) -> NDArray[Any] | None:
    """Return a tensor of a `ModelInferResponse`; None: it has none of that name."""
    found: NDArray[Any] | None = InferResult(response).as_numpy(name)
    return found
