"""Triton model `vision_encoder`: pictures of servers in other pods to features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mm_runtime.engine.encoder_model import EncoderModel
from mm_runtime.engine.encoders.client import ASKED_IDENTITY, OTHER_ENGINE, OWN_IDENTITY
from mm_runtime.engine.errors import RequestError
from mm_runtime.engine.executing import Executing
from mm_runtime.engine.tensors import Tensors, texts
from mm_runtime.engine.triton import ModelSettings, refuse, respond


class TritonPythonModel:
    """Pixel values -> prompt embedding table, for requests that mean this vision engine."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the vision engine."""
        self._settings = ModelSettings(args)
        self._model = EncoderModel(self._settings, asks_others=False)
        self._executing = Executing("encoding")
        name = self._model.identity.encode()
        self._identity = {OWN_IDENTITY: np.array([[name]], dtype=np.object_)}

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Encode the pictures of all requests together."""
        with self._executing.during(len(requests)):
            return self._answered(requests)

    def _answered(self, requests: Sequence[Any]) -> list[Any]:
        responses: list[Any] = [None] * len(requests)
        accepted: dict[int, Tensors] = {}
        for index, request in enumerate(requests):
            inputs = self._settings.inputs(request)
            try:
                self._check(inputs)
                accepted[index] = inputs
            except RequestError as error:
                responses[index] = refuse(error)
        for index, one in zip(accepted, self._encoded(list(accepted.values())), strict=True):
            known = isinstance(one, dict)
            responses[index] = respond(one | self._identity) if known else refuse(one)
        return responses

    def _encoded(self, requests: list[Tensors]) -> Sequence[Any]:
        """Return tensors or an error for each request."""
        try:
            return self._model.encode(requests) if requests else []
        except Exception as error:  # noqa: BLE001 (the servers get it, and this one lives on)
            return [error] * len(requests)

    def _check(self, inputs: Tensors) -> None:
        asked = next(iter(texts(inputs, ASKED_IDENTITY)), "")
        if asked != self._model.identity:
            raise RequestError(
                f"this encoder has {OTHER_ENGINE}: {self._model.identity[:16]}, the request means "
                f"{asked[:16] or 'none'}"
            )
