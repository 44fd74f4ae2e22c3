"""The engine behind Triton's gRPC: the only module that knows tensors and gRPC.

Uses `token_ensemble` alone, always as a stream (plain answers are collected by the caller):
that is the only call a decoupled ensemble answers.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from math import prod
from struct import Struct, unpack_from
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import InferInput, InferRequestedOutput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from mm_runtime.base.grpc_channel import CHANNEL
from mm_runtime.gateway.api.finish_reason import FinishReason
from mm_runtime.gateway.backends.engine import Ended, EngineRequest, Sampling, Text
from mm_runtime.gateway.backends.token_text import Decode, TokenText
from mm_runtime.gateway.backends.triton_errors import reported_error
from mm_runtime.gateway.backends.triton_stream import TritonStream, tensor
from mm_runtime.gateway.errors import (
    GatewayError,
    InvalidRequestError,
    engine_failed,
    engine_unavailable,
)
from mm_runtime.repository.configs.token_ensemble import IDS, LENGTH, LOGITS
from mm_runtime.repository.configs.token_ensemble import NAME as ENSEMBLE

_ONE_INTEGER = Struct("<i")
_MOST_PIXEL_BYTES = 512 << 20
"""Of all images of a request in one tensor: as much as bodies share. Two strips of 1 x 50,000
and 50,000 x 1 pixels would be padded to 15 GB."""

_PROBE_SECONDS = 1.0
"""Deadline of a readiness question; the kubelet's probe allows one second by default."""


class TritonEngine:
    """Implements `mm_runtime.gateway.backends.engine.Engine` on a Triton server."""

    def __init__(self, address: str, decode: Decode, *, seed: str = "random_seed") -> None:
        """Prepare the client; no request is sent yet.

        Args:
            address: host:port of Triton's gRPC endpoint.
            decode: token ids -> text, special tokens left out.
            seed: name of the input of a sampled answer's seed: TensorRT-LLM 0.20 has another one.
        """
        self._decode = decode
        self._seed = seed
        self._client = InferenceServerClient(address, channel_args=list(CHANNEL))

    async def close(self) -> None:
        """Close the channel."""
        await self._client.close()

    async def is_ready(self) -> bool:
        """Return whether the server and the ensemble are ready now."""
        try:
            return bool(
                await self._client.is_server_ready(client_timeout=_PROBE_SECONDS)
                and await self._client.is_model_ready(ENSEMBLE, client_timeout=_PROBE_SECONDS)
            )
        except InferenceServerException:
            return False

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Text | Ended, None]:
        """Yield the text of tokens as they come; closing the iterator stops the generation."""
        inputs = build_inputs(request, self._seed)
        text = TokenText(self._decode)
        answered = False
        async with aclosing(self._responses(request, inputs, IDS, LENGTH)) as responses:
            async for together in responses:
                answered = True
                tokens = [token for result in together for token in _tokens(result)]
                if request.token_by_token:
                    for token in tokens:
                        yield Text(text.push((token,)))
                elif tokens:
                    yield Text(text.push(tokens), len(tokens))
        if not answered:
            # An ensemble that misses an input ends its stream with nothing in it, as if well.
            return
        if text.tokens == 0:
            yield Text("", 0)
        if held := text.end():
            yield Text(held, 0)
        cut = text.tokens >= request.max_tokens
        yield Ended(FinishReason.LENGTH if cut else FinishReason.STOP, text.tokens)

    async def first_logits(self, request: EngineRequest) -> NDArray[np.float32]:
        """Return the logits [vocabulary] of the first token of an answer."""
        wants_logits = tensor("return_generation_logits", np.array([[True]], dtype=np.bool_))
        inputs = [*build_inputs(replace(request, max_tokens=1), self._seed), wants_logits]
        found: NDArray[np.float32] | None = None
        async with aclosing(self._responses(request, inputs, LOGITS)) as responses:
            async for together in responses:  # to its end: an abandoned stream would keep running
                for result in together:
                    logits = result.as_numpy(LOGITS)
                    if found is None and logits is not None and logits.size:
                        found = logits.reshape(-1, logits.shape[-1])[0]
        if found is None:
            raise engine_failed()
        return found

    async def _responses(
        self, request: EngineRequest, inputs: list[InferInput], *outputs: str
    ) -> AsyncGenerator[list[Any], None]:
        """Yield responses with some of the ensemble's outputs, those together that have come."""
        stream = TritonStream(
            self._client,
            {
                "model_name": ENSEMBLE,
                "inputs": inputs,
                "outputs": [InferRequestedOutput(output) for output in outputs],
                "request_id": request.request_id,
            },
        )
        try:
            async for together in stream.results():
                yield together
        except grpc.aio.AioRpcError as error:
            raise _broken_call(error.code()) from error
        except InferenceServerException as error:
            raise reported_error(ENSEMBLE, str(error)) from error
        finally:
            await stream.stop()


def _tokens(result: Any) -> list[int]:
    """Return the tokens of a response's one beam; none of a response without tensors.

    From the bytes: making arrays of them took longer than all else that is done to a response.
    """
    response = result.get_response()
    names = [output.name for output in response.outputs]
    found = dict(zip(names, response.raw_output_contents, strict=False))
    if IDS not in found or LENGTH not in found:
        return []
    (length,) = _ONE_INTEGER.unpack_from(found[LENGTH])
    return list(unpack_from(f"<{length}i", found[IDS]))


def build_inputs(request: EngineRequest, seed: str) -> list[InferInput]:
    """Return the ensemble's input tensors, each with a batch dimension of one.

    Args:
        request: what to send.
        seed: name of the input of a sampled answer's seed.
    """
    inputs = [
        tensor("text_input", np.array([[request.prompt.encode()]], dtype=np.object_)),
        tensor("max_tokens", np.array([[request.max_tokens]], dtype=np.int32)),
        tensor("stream", np.array([[True]], dtype=np.bool_)),
        *_sampling_inputs(request.sampling, seed),
    ]
    if request.video is not None:
        inputs.append(tensor("video_bytes_input", request.video[np.newaxis]))
    if request.cache_salt and (request.images or request.video is not None):
        salt = np.array([[request.cache_salt.encode()]], dtype=np.object_)
        inputs.append(tensor("cache_salt", salt))
    if request.adapter is not None:
        inputs.append(tensor("lora_task_id", np.array([[request.adapter]], dtype=np.uint64)))
    if request.audio is not None:
        inputs.append(tensor("WAV", request.audio[np.newaxis]))
    return [*inputs, *_image_inputs(request.images)]


def _image_inputs(images: tuple[NDArray[np.uint8], ...]) -> list[InferInput]:
    """Return one tensor of all images; different sizes are padded, and sent along.

    Raises:
        InvalidRequestError: of shapes so different that their padding would fill the memory.
    """
    if not images:
        return []
    sizes = np.array([image.shape[:2] for image in images], dtype=np.int64)
    if (sizes == sizes[0]).all():
        return [tensor("image_bytes_input", np.stack(images)[np.newaxis])]
    shape = (len(images), *sizes.max(axis=0).tolist(), 3)
    if prod(shape) > _MOST_PIXEL_BYTES:
        raise InvalidRequestError(
            f"The {shape[0]} images are together up to {shape[2]} pixels wide and {shape[1]} high: "
            "too different in shape for one request. Cut them, or send them one by one.",
            code="invalid_image",
        )
    padded = np.zeros(shape, dtype=np.uint8)
    for canvas, image in zip(padded, images, strict=True):
        canvas[: image.shape[0], : image.shape[1]] = image
    return [
        tensor("image_bytes_input", padded[np.newaxis]),
        tensor("image_sizes_input", sizes[np.newaxis]),
    ]


def _sampling_inputs(sampling: Sampling, seed: str) -> list[InferInput]:
    inputs = []
    if sampling.temperature > 0:
        inputs += [
            tensor("temperature", np.array([[sampling.temperature]], dtype=np.float32)),
            tensor("top_p", np.array([[sampling.top_p]], dtype=np.float32)),
            # 0 switches top-k off; TensorRT-LLM's default of 1 would be greedy.
            tensor("top_k", np.array([[0]], dtype=np.int32)),
            tensor(seed, np.array([[sampling.seed]], dtype=np.uint64)),
        ]
    else:
        inputs.append(tensor("top_k", np.array([[1]], dtype=np.int32)))
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(sampling, name)
        if value is not None:
            inputs.append(tensor(name, np.array([[value]], dtype=np.float32)))
    return inputs


def _broken_call(code: grpc.StatusCode) -> GatewayError:
    """Translate a stream that ended by itself: the server, not the request, is the cause."""
    if code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND}:
        return engine_unavailable()
    return engine_failed()
