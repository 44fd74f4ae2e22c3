"""A response that is sent after `execute` has returned."""

from collections.abc import Mapping
from typing import Any

import triton_python_backend_utils as pb_utils

from mm_runtime.serving.metrics.families import Executing
from mm_runtime.serving.triton import Outputs, refuse, respond

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class DeferredResponse:
    """Sends the one response of a request; from its making until then the request is counted.

    `types`: element types of the model's outputs (`ModelSettings.output_types`).
    """

    def __init__(self, request: Any, executing: Executing, types: Mapping[str, str]) -> None:
        self._sender = request.get_response_sender()
        self._requested = frozenset(request.requested_output_names())
        self._executing, self._types = executing, types
        executing.entered()

    def send(self, outcome: Outputs | Exception) -> None:
        """Send tensors or what is wrong, once; may be called from any thread."""
        try:
            if isinstance(outcome, Exception):
                response = refuse(outcome)
            else:
                response = respond(outcome, self._types, self._requested)
        except Exception as error:  # noqa: BLE001 (else the request would stay open for ever)
            response = refuse(error)
        try:
            self._sender.send(response, flags=FINAL)
        finally:
            self._executing.left()
