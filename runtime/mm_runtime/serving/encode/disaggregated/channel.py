"""A gRPC channel to one encoder's tritonserver; messages are bytes both ways."""

from typing import Any

import grpc

from mm_runtime.base.grpc_channel import CHANNEL, ENCODER_KEY, GRPC_KEY_PREFIX

_INFER = "/inference.GRPCInferenceService/ModelInfer"


class EncoderChannel:
    """Opened by its first call; may be used from any thread.

    Args:
        address: HOST:PORT of Triton's gRPC.
        key: shown with each request; empty: none.
    """

    def __init__(self, address: str, key: str = "") -> None:
        self._channel = grpc.insecure_channel(address, options=CHANNEL)
        self._call: Any = self._channel.unary_unary(_INFER)
        self._metadata = ((f"{GRPC_KEY_PREFIX}{ENCODER_KEY}", key),) if key else ()

    def infer(self, message: bytes, seconds: float) -> bytes:
        """Return the answer to a request.

        Raises:
            grpc.RpcError: there was none in so many seconds, or it is an error.
        """
        answer: bytes = self._call(message, timeout=seconds, metadata=self._metadata)
        return answer

    def close(self) -> None:
        self._channel.close()
