"""A Triton that computes nothing: it answers each stream at once, with one token.

    python bench/gateway/instant_triton.py

prints its port and answers until it is ended. Requests stay bytes: it costs what a gRPC server has
to, and the same for whatever it is sent.
"""

import asyncio
from collections.abc import AsyncIterator

import grpc
from tritonclient.grpc.service_pb2 import ModelInferResponse, ModelStreamInferResponse

from mm_runtime.base.grpc_channel import CHANNEL
from mm_runtime.repository.configs.token_ensemble import IDS, LENGTH

SERVICE = "inference.GRPCInferenceService"
TOKEN = 5


def response() -> bytes:
    """Return a response with one token, as the ensemble's."""
    one = ModelInferResponse(model_name="token_ensemble")
    for name, value in ((IDS, TOKEN), (LENGTH, 1)):
        one.outputs.add(name=name, datatype="INT32", shape=(1, 1))
        one.raw_output_contents.append(value.to_bytes(4, "little"))
    said: bytes = ModelStreamInferResponse(infer_response=one).SerializeToString()
    return said


async def run() -> None:
    """Serve until the process is ended."""
    said = response()

    async def answer(requests: AsyncIterator[bytes], _: object) -> AsyncIterator[bytes]:
        async for _ in requests:
            yield said

    server = grpc.aio.server(options=CHANNEL)
    stream = grpc.stream_stream_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"ModelStreamInfer": stream}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(run())
