"""Requests the features of one request from encoders over gRPC, one encoder after another."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from mm_runtime.base.grpc_channel import CHANNEL, ENCODER_KEY, GRPC_KEY_PREFIX
from mm_runtime.images.normalisation import Normalisation
from mm_runtime.serving.encode.disaggregated.backoff import Backoff
from mm_runtime.serving.encode.disaggregated.responses import (
    ExpectedFeatures,
    InvalidResponseError,
    checked,
)
from mm_runtime.serving.encode.disaggregated.routing import order
from mm_runtime.serving.encode.encoding import Outputs
from mm_runtime.serving.encode.vision.cache import digest
from mm_runtime.serving.encode.vision.pixel_bytes import with_values
from mm_runtime.serving.tensors import Tensors, of_bfloat16

logger = logging.getLogger(__name__)

MODEL = "vision_encoder"
EXPECTED_IDENTITY, OWN_IDENTITY = "expected_identity", "VISION_IDENTITY"
OTHER_ENGINE = "another vision engine"
"""Part of what an encoder says to a request that expects features of another engine."""

_PIXELS = ("IMAGE", "pixel_values")


class Why(StrEnum):
    """Why features did not come from an encoder; the label of `mm_encoder_fallbacks_total`."""

    ABSENT = "absent"
    """There is no encoder, or every one that there is has failed a moment ago."""

    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    MISMATCH = "mismatch"
    """It has another vision engine: a rollout is under way, or a wrong address was given."""

    INVALID = "invalid"
    """What it sent are no features of this engine."""

    FAILED = "failed"


class EncoderError(Exception):
    """No encoder answered."""

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(message)
        self.why = why


@dataclass(frozen=True, slots=True)
class _Failure:
    why: Why
    message: str


_CODES = {
    "StatusCode.UNAVAILABLE": Why.UNAVAILABLE,
    "StatusCode.NOT_FOUND": Why.UNAVAILABLE,
    "StatusCode.DEADLINE_EXCEEDED": Why.TIMEOUT,
}


class EncoderClient:
    """One client for each encoder, made at its first call. May be called from any thread.

    Args:
        encoders: the addresses there are now.
        identity: of the vision engine that features must come from.
        expected_features: what they look like.
        timeout_seconds: for one request, all encoders together.
        key: shown with each request; empty: none.
        normalisation: of images that come as bytes. Encoders get values, whatever their version.
    """

    def __init__(
        self,
        encoders: Callable[[], Iterable[str]],
        *,
        identity: str,
        expected_features: ExpectedFeatures,
        timeout_seconds: float,
        key: str = "",
        normalisation: Normalisation | None = None,
    ) -> None:
        self._encoders = encoders
        self._identity = identity
        self._expected_features = expected_features
        self._timeout = timeout_seconds
        self._normalisation = normalisation
        self._headers = {f"{GRPC_KEY_PREFIX}{ENCODER_KEY}": key} if key else None
        self._clients: dict[str, InferenceServerClient] = {}
        self._backoff = Backoff()

    def encode(self, inputs: Tensors) -> Outputs:
        """Return the features of one request, checked.

        Raises:
            EncoderError: no encoder answered in time with features of the same engine.
        """
        deadline = time.monotonic() + self._timeout
        inputs = with_values(inputs, self._normalisation)
        last = _Failure(Why.ABSENT, "there is no encoder")
        key = digest({name: inputs[name] for name in _PIXELS if name in inputs})
        for encoder in order(key, self._encoders()):
            now = time.monotonic()
            if now >= deadline:
                break
            if self._backoff.is_backing_off(encoder, now):
                last = _Failure(Why.ABSENT, "every encoder failed a moment ago")
                continue
            answer = self._infer(encoder, inputs, deadline - now)
            if not isinstance(answer, _Failure):
                self._backoff.answered(encoder)
                return answer
            logger.warning("vision encoder %s (%s): %s", encoder, answer.why, answer.message)
            if answer.why is Why.FAILED:  # likely at this request: another one would fail as well
                raise EncoderError(answer.why, answer.message)
            self._backoff.failed(encoder, time.monotonic())
            last = answer
        raise EncoderError(last.why, last.message)

    def _infer(self, encoder: str, inputs: Tensors, seconds: float) -> Outputs | _Failure:
        try:
            result: Any = self._client(encoder).infer(
                MODEL,
                [*_tensors(inputs), _text(EXPECTED_IDENTITY, self._identity)],
                outputs=[
                    InferRequestedOutput(name)
                    for name in (*sorted(self._expected_features.names), OWN_IDENTITY)
                ],
                client_timeout=seconds,
                headers=self._headers,
            )
        except InferenceServerException as error:
            message = str(error.message())
            if OTHER_ENGINE in message:
                return _Failure(Why.MISMATCH, message)
            return _Failure(_CODES.get(str(error.status()), Why.FAILED), message)
        try:
            response = result.get_response()
            found = {
                one.name: _values(result, one, response.raw_output_contents[place])
                for place, one in enumerate(response.outputs)
            }
        except (IndexError, ValueError) as error:
            return _Failure(Why.INVALID, f"its tensors cannot be read: {error}")
        theirs = found.pop(OWN_IDENTITY, None)
        reported = theirs.reshape(-1)[0].decode() if theirs is not None and theirs.size else "none"
        if reported != self._identity:
            return _Failure(
                Why.MISMATCH,
                f"it has {OTHER_ENGINE}: {reported[:16]}, expected {self._identity[:16]}",
            )
        try:
            return checked(found, self._expected_features, _image_count(inputs))
        except InvalidResponseError as error:
            return _Failure(Why.INVALID, str(error))

    def _client(self, encoder: str) -> InferenceServerClient:
        client = self._clients.get(encoder)
        if client is None:
            for gone in set(self._clients) - {*self._encoders(), encoder}:
                self._clients.pop(gone).close()
            client = InferenceServerClient(encoder, channel_args=list(CHANNEL))
            client = self._clients.setdefault(encoder, client)
        return client


def _values(result: Any, output: Any, content: bytes) -> Any:
    """Return the values of one output.

    Raises:
        ValueError: they are not as many as its shape says.
    """
    if output.datatype == "BF16":  # tritonclient has another type for it in each version
        return of_bfloat16(np.frombuffer(content, np.uint16).reshape(output.shape))
    return result.as_numpy(output.name)


def _image_count(inputs: Tensors) -> int:
    """Return how many images a request of a fixed-size tower has."""
    return next((int(inputs[name].shape[1]) for name in _PIXELS if name in inputs), 0)


def _tensors(inputs: Tensors) -> list[InferInput]:
    tensors = []
    for name, values in inputs.items():
        one = InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
        one.set_data_from_numpy(np.ascontiguousarray(values))
        tensors.append(one)
    return tensors


def _text(name: str, value: str) -> InferInput:
    tensor = InferInput(name, [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[value.encode()]], dtype=np.object_))
    return tensor
