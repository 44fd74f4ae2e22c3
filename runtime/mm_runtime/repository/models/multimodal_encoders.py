"""Triton model `multimodal_encoders`; what it does is in mm_runtime.engine.encoding."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import triton_python_backend_utils as pb_utils

from mm_runtime.engine.encoder_model import EncoderModel
from mm_runtime.engine.encoders.first import EncodersFirst
from mm_runtime.engine.executing import Executing
from mm_runtime.engine.triton import ModelSettings, Outputs, refuse, respond

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """Pixel values -> prompt embedding table, several requests in one run."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the vision engine; a text-only engine has none."""
        self._settings = ModelSettings(args)
        self._model = EncoderModel(self._settings, asks_others=True)
        self._executing = Executing("encoding")

    def execute(self, requests: Sequence[Any]) -> list[Any] | None:
        """Encode the pictures of all requests together, or let each wait for its encoder."""
        if self._model.others:
            for request in requests:
                self._submit(request, self._model.others)
            return None
        with self._executing.during(len(requests)):
            return self._encoded(requests)

    def _encoded(self, requests: Sequence[Any]) -> list[Any]:
        try:
            results = self._model.encode([self._settings.inputs(request) for request in requests])
        except Exception as error:  # noqa: BLE001 (the clients get it, and the server lives on)
            return [refuse(error) for _ in requests]
        return [_response(one) for one in results]

    def _submit(self, request: Any, others: EncodersFirst) -> None:
        self._executing.entered()
        send = partial(self._send, request.get_response_sender())
        try:
            # The request's own memory is Triton's again once this call is over.
            inputs = {name: one.copy() for name, one in self._settings.inputs(request).items()}
            others.submit(inputs, send)
        except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
            send(error)

    def _send(self, sender: Any, outcome: Outputs | Exception) -> None:
        try:
            sender.send(_response(outcome), flags=FINAL)
        finally:
            self._executing.left()

    def finalize(self) -> None:
        """End the threads; Triton has let running requests finish before."""
        if self._model.others:
            self._model.others.close()


def _response(outcome: Outputs | Exception) -> Any:
    if isinstance(outcome, Exception):
        return refuse(outcome)
    return respond(outcome)
