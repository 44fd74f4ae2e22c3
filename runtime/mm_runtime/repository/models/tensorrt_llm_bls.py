"""Triton models `tensorrt_llm_bls`, `whisper_bls`, `llmapi`; `ensemble` where no model streams.

See mm_runtime.serving.bls.pipeline.
"""

import json
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from mm_runtime.serving.bls.calls import FinishedResponses, TritonCalls
from mm_runtime.serving.bls.pipeline import BlsPipeline, read_steps
from mm_runtime.serving.errors import EngineStoppedError, RequestError
from mm_runtime.serving.tensors import Tensors, scalar
from mm_runtime.serving.triton import ModelSettings, refuse, respond

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
ID_BYTES = 8
NO_STREAMS = (
    "this server's models do not stream (spec.runtime.streaming is false); leave stream out, or "
    "set it to false"
)


class TritonPythonModel:
    """The ensemble's steps in one model, decoupled; an instance serves one request at a time."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the steps, and how its clients name and leave out their tensors."""
        self._settings = ModelSettings(args)
        parameters = self._settings.parameters
        self._names = json.loads(parameters.get("names", "{}"))
        defaults = json.loads(parameters.get("defaults", "{}"))
        self._defaults = {
            name: np.array([[value]], np.bool_ if isinstance(value, bool) else np.int32)
            for name, value in defaults.items()
        }
        self._given = {self._names.get(one, one): one for one in self._settings.output_names}
        self._pipeline = BlsPipeline(
            steps=read_steps(self._settings.text("steps")),
            outputs=frozenset(self._given),
            accumulate=self._settings.text("accumulate_tokens") == "true",
        )
        self._finished = FinishedResponses()

    def execute(self, requests: Sequence[Any]) -> None:
        """Answer each request; Triton gives the next one to another instance meanwhile."""
        for request in requests:
            sender = request.get_response_sender()
            self._finished.free(sender)
            self._answer(request, sender)

    def _answer(self, request: Any, sender: Any) -> None:
        """Send all responses of one request; the stream is closed exactly once."""
        # The client's own id may be another request's too, and stopping goes by it.
        calls = TritonCalls(secrets.token_hex(ID_BYTES), self._finished)
        closed = False
        try:
            inputs = self._inputs(request)
            requested = frozenset(request.requested_output_names())
            for outputs, last in self._pipeline.answer(inputs, calls, sender.is_cancelled):
                named = {self._given[name]: self._shaped(one) for name, one in outputs.items()}
                response = respond(named, requested=requested)
                sender.send(response, flags=FINAL if last else 0)
                closed = last
            if not closed:
                self._leave(sender)
        except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
            if not closed:
                sender.send(refuse(error), flags=FINAL)

    def _inputs(self, request: Any) -> Tensors:
        found = self._settings.inputs(request)
        inputs = {self._names.get(name, name): one for name, one in found.items()}
        if scalar(inputs, "stream") and not self._settings.decoupled:
            raise RequestError(NO_STREAMS)
        return self._defaults | inputs

    def _shaped(self, tensor: Any) -> Any:
        return tensor if self._settings.batches else tensor[0]

    def _leave(self, sender: Any) -> None:
        """Close the stream of a cancelled request; without streams there must be a response."""
        if self._settings.decoupled:
            sender.send(flags=FINAL)
        else:
            sender.send(refuse(EngineStoppedError("the request was cancelled")), flags=FINAL)

    def finalize(self) -> None:
        """Free the last answers while the memory that they lie in is there."""
        self._finished.clear()
