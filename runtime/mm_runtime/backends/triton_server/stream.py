"""One streamed request to Triton that can be stopped without leaking it.

Triton 2.51 never frees an ensemble's request whose gRPC stream was cancelled: its tensors stay (on
a GPU one prompt table of the CUDA pool for each client that leaves) and the server cannot stop in
time. Measured: 13 of 14 cancelled requests stayed in flight for ever. So a stream is always read
to its end; to make that end come soon, the language model is sent TensorRT-LLM's own `stop` for
the same request id.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from itertools import takewhile
from typing import Any

import grpc
import numpy as np

from mm_runtime.backends.triton_server.client import Tensor, TritonClient

_LANGUAGE_MODEL = "tensorrt_llm"
_STOP_SECONDS = 5.0
"""For the end of a stopped stream. It takes 5 to 30 ms; past this, a leak is the lesser evil."""
_REPEAT_SECONDS = 0.1
"""A stop that comes before the language model knows the request is lost, so it is repeated."""


class ReportedError(Exception):
    """The server's message about a request, in its stream."""


class TritonStream:
    """The responses of one request, in order."""

    def __init__(
        self,
        client: TritonClient,
        model: str,
        request_id: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[str],
        *,
        trace: Sequence[tuple[str, str]],
    ) -> None:
        """Send a request; the arguments are those of `TritonClient.call`."""
        self._client = client
        self._request_id = request_id
        self._call = client.call(model, request_id, inputs, outputs, trace)
        self._results: asyncio.Queue[Any] = asyncio.Queue()
        self._ended = False
        # A task of its own: cancelling a read cancels the complete call.
        self._reader = asyncio.create_task(self._read())

    async def results(self) -> AsyncGenerator[list[Any], None]:
        """Yield each `ModelInferResponse`, together with those that came since the one before.

        Raises:
            grpc.aio.AioRpcError: the call failed.
            ReportedError: the server answered with an error in the stream.
        """
        while True:
            came = [await self._results.get()]
            while not self._results.empty():
                came.append(self._results.get_nowait())
            results = list(takewhile(_is_result, came))
            if results:
                yield results
            if len(results) < len(came):
                end = came[len(results)]
                if end is not None:
                    raise end
                return

    async def stop(self) -> None:
        """Return once the stream has ended; stop the language model if it continues."""
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                while not self._ended:
                    await self._request_stop()
                    await asyncio.wait({self._reader}, timeout=_REPEAT_SECONDS)
        except TimeoutError:
            pass
        finally:
            self._reader.cancel()
            self._call.cancel()

    async def _read(self) -> None:
        end = None
        try:
            async for response in self._call:
                message = response.error_message
                self._results.put_nowait(
                    ReportedError(message) if message else response.infer_response
                )
        except grpc.aio.AioRpcError as error:
            end = error
        finally:
            self._ended = True
            self._results.put_nowait(end)

    async def _request_stop(self) -> None:
        """Send `stop`; a server that does not understand it is left to finish by itself."""
        number = np.array([[1]], dtype=np.int32)
        call = self._client.call(
            _LANGUAGE_MODEL,
            self._request_id,
            [
                Tensor("input_ids", number),
                Tensor("input_lengths", number),
                Tensor("request_output_len", number),
                Tensor("stop", np.array([[True]], dtype=np.bool_)),
            ],
        )
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for _ in call:
                pass


def _is_result(one: Any) -> bool:
    return one is not None and not isinstance(one, Exception)
