"""Requests the features of one request from encoders over gRPC, one encoder after another."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from mm_api.rendezvous import order
from mm_runtime.base.grpc_channel import CHANNEL, ENCODER_KEY, GRPC_KEY_PREFIX
from mm_runtime.serving.encode.disaggregated.responses import (
    ExpectedFeatures,
    InvalidResponseError,
    checked,
)
from mm_runtime.serving.encode.encoding import Outputs
from mm_runtime.serving.encode.vision.cache import digest
from mm_runtime.serving.tensor_names import BYTES_TO_ENCODE
from mm_runtime.serving.tensors import Tensors

logger = logging.getLogger(__name__)

MODEL = "vision_encoder"
_INFER = "/inference.GRPCInferenceService/ModelInfer"
EXPECTED_IDENTITY, OWN_IDENTITY = "expected_identity", "VISION_IDENTITY"
OTHER_ENGINE = "another vision engine"
"""Part of what an encoder says to a request that expects features of another engine."""

Headers = tuple[tuple[str, str], ...]
_PIXELS = (BYTES_TO_ENCODE, "IMAGE", "pixel_values")


class FallbackReason(StrEnum):
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

    def __init__(self, why: FallbackReason, message: str) -> None:
        super().__init__(message)
        self.why = why


_CODES = {
    grpc.StatusCode.UNAVAILABLE: FallbackReason.UNAVAILABLE,
    grpc.StatusCode.NOT_FOUND: FallbackReason.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: FallbackReason.TIMEOUT,
}


class EncoderChannel:
    """A channel to HOST:PORT, opened by its first call; may be used from any thread.

    `key`: shown with each request; empty: none.
    """

    def __init__(self, address: str, key: str = "") -> None:
        self._channel = grpc.insecure_channel(address, options=CHANNEL)
        self._call: Any = self._channel.unary_unary(_INFER)
        self._metadata = ((f"{GRPC_KEY_PREFIX}{ENCODER_KEY}", key),) if key else ()

    def infer(self, message: bytes, seconds: float, trace: Headers = ()) -> bytes:
        """Return the answer to a request, or raise grpc.RpcError: there was none in that time."""
        answer: bytes = self._call(message, timeout=seconds, metadata=(*self._metadata, *trace))
        return answer

    def close(self) -> None:
        self._channel.close()


FIRST_SECONDS = 1.0
"""After the first failure: an encoder whose server was started again is back in seconds."""

LONGEST_SECONDS = 30.0
"""An encoder that hangs costs one request its time-out in each of these."""


@dataclass
class Backoff:
    """When each encoder may be called again; times are of a clock that only goes forward."""

    _until: dict[str, float] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)

    def failed(self, encoder: str, now: float) -> None:
        if self.is_backing_off(encoder, now):
            return  # another request of the same moment has said so
        seconds = min(self._last.get(encoder, FIRST_SECONDS / 2) * 2, LONGEST_SECONDS)
        self._last[encoder] = seconds
        self._until[encoder] = now + seconds

    def answered(self, encoder: str) -> None:
        self._until.pop(encoder, None)
        self._last.pop(encoder, None)

    def is_backing_off(self, encoder: str, now: float) -> bool:
        return now < self._until.get(encoder, now)


class EncoderClient:
    """One channel for each encoder, made at its first call. May be called from any thread.

    `encoders`: the addresses there are now. `identity`: of the vision engine that features must
    come from. `timeout_seconds`: for one request, all encoders together.
    """

    def __init__(
        self,
        encoders: Callable[[], Iterable[str]],
        *,
        identity: str,
        expected_features: ExpectedFeatures,
        timeout_seconds: float,
        key: str = "",
    ) -> None:
        self._encoders = encoders
        self._identity = identity
        self._expected_features = expected_features
        self._outputs = (*sorted(expected_features.names), OWN_IDENTITY)
        self._timeout = timeout_seconds
        self._key = key
        self._channels: dict[str, EncoderChannel] = {}
        # Here: protobuf of images with TensorRT-LLM up to 1.0 is older than tritonclient's messages
        # and refuses them, and only models with encoders in other pods send any.
        from mm_runtime.serving import messages  # noqa: PLC0415

        self._messages = messages
        self._backoff = Backoff()

    def encode(self, inputs: Tensors, trace: Headers = ()) -> Outputs:
        """Return the features of one request, checked; `trace`: headers that continue one.

        Raises:
            EncoderError: no encoder answered in time with features of the same engine.
        """
        deadline = time.monotonic() + self._timeout
        last = EncoderError(FallbackReason.ABSENT, "there is no encoder")
        for encoder in self._ordered(inputs):
            now = time.monotonic()
            if now >= deadline:
                break
            if self._backoff.is_backing_off(encoder, now):
                last = EncoderError(FallbackReason.ABSENT, "every encoder failed a moment ago")
                continue
            try:
                answer = self._infer(encoder, inputs, deadline, trace)
            except EncoderError as error:
                logger.warning("vision encoder %s (%s): %s", encoder, error.why, error)
                if error.why is FallbackReason.FAILED:  # at this request: all others would as well
                    raise
                self._backoff.failed(encoder, time.monotonic())
                last = error
            else:
                self._backoff.answered(encoder)
                return answer
        raise last

    def _ordered(self, inputs: Tensors) -> list[str]:
        encoders = list(self._encoders())
        if len(encoders) < 2:  # noqa: PLR2004 (nothing to choose: a digest reads every pixel)
            return encoders
        return order(digest({name: inputs[name] for name in _PIXELS if name in inputs}), encoders)

    def _infer(self, encoder: str, inputs: Tensors, deadline: float, trace: Headers) -> Outputs:
        try:
            answer = self._sent(self._channel(encoder), inputs, deadline, trace)
        except grpc.RpcError as error:
            message, why = error.details() or "", _CODES.get(error.code(), FallbackReason.FAILED)
            why = FallbackReason.MISMATCH if OTHER_ENGINE in message else why
            raise EncoderError(why, message) from error
        except ValueError as error:  # another thread has closed the channel
            raise EncoderError(FallbackReason.UNAVAILABLE, str(error)) from error
        try:
            found = self._messages.tensors_of(answer)
        except ValueError as error:
            message = f"its tensors cannot be read: {error}"
            raise EncoderError(FallbackReason.INVALID, message) from error
        theirs = found.pop(OWN_IDENTITY, None)
        reported = "none" if theirs is None else _text(theirs)
        if reported != self._identity:
            message = f"it has {OTHER_ENGINE}: {reported[:16]}, expected {self._identity[:16]}"
            raise EncoderError(FallbackReason.MISMATCH, message)
        try:
            return checked(found, self._expected_features, _image_count(inputs))
        except InvalidResponseError as error:
            raise EncoderError(FallbackReason.INVALID, str(error)) from error

    def _sent(
        self, channel: EncoderChannel, inputs: Tensors, deadline: float, trace: Headers
    ) -> bytes:
        identity = np.array([[self._identity.encode()]], dtype=np.object_)
        named = {**inputs, EXPECTED_IDENTITY: identity}
        message = self._messages.request_of(MODEL, named, self._outputs)
        return channel.infer(message, max(0.0, deadline - time.monotonic()), trace)

    def _channel(self, encoder: str) -> EncoderChannel:
        channel = self._channels.get(encoder)
        if channel is None:
            for gone in set(self._channels) - {*self._encoders(), encoder}:
                if found := self._channels.pop(gone, None):  # not by another thread
                    found.close()
            channel = self._channels.setdefault(encoder, EncoderChannel(encoder, self._key))
        return channel


def _text(identity: NDArray[Any]) -> str:
    first = identity.reshape(-1)[0] if identity.size else None
    return first.decode(errors="replace") if isinstance(first, bytes) else "none"


def _image_count(inputs: Tensors) -> int:
    return next((int(inputs[name].shape[1]) for name in _PIXELS if name in inputs), 0)
