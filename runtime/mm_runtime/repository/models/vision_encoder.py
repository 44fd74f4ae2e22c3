"""Triton model `vision_encoder`: images of servers in other pods to features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mm_runtime.serving.encode.disaggregated.client import (
    EXPECTED_IDENTITY,
    OTHER_ENGINE,
    OWN_IDENTITY,
)
from mm_runtime.serving.encode.model import EncoderModel
from mm_runtime.serving.encode.queue import Done
from mm_runtime.serving.errors import RequestError
from mm_runtime.serving.metrics.families import Executing, end_metrics
from mm_runtime.serving.send.deferred_response import DeferredResponse
from mm_runtime.serving.tensors import Tensors, texts
from mm_runtime.serving.triton import ModelSettings, Outputs


class TritonPythonModel:
    """Pixel values -> prompt embedding table, for requests that mean this vision engine."""

    def initialize(self, args: dict[str, str]) -> None:
        self._settings = ModelSettings(args)
        self._model = EncoderModel(self._settings, may_offload=False)
        self._executing = Executing("encoding")
        name = self._model.identity.encode()
        self._identity = {OWN_IDENTITY: np.array([[name]], dtype=np.object_)}

    def execute(self, requests: Sequence[Any]) -> None:
        """Hand the requests to the encoder's queue and return at once."""
        for request in requests:
            response = DeferredResponse(request, self._executing, self._settings.output_types)
            try:
                inputs = self._settings.kept_inputs(request)
                self._check(inputs)
                self._model.queue.submit(inputs, self._named(response.send))
            except Exception as error:  # noqa: BLE001 (the server gets it, and this one lives on)
                response.send(error)

    def _named(self, done: Done) -> Done:
        """Let an answer say which vision engine made it."""

        def named(outcome: Outputs | Exception) -> None:
            done(outcome if isinstance(outcome, Exception) else outcome | self._identity)

        return named

    def _check(self, inputs: Tensors) -> None:
        expected = next(iter(texts(inputs, EXPECTED_IDENTITY)), "")
        if expected != self._model.identity:
            raise RequestError(
                f"this encoder has {OTHER_ENGINE}: {self._model.identity[:16]}, the request means "
                f"{expected[:16] or 'none'}"
            )

    def finalize(self) -> None:
        """End the thread; Triton has let running requests finish before."""
        self._model.queue.close()
        end_metrics()
