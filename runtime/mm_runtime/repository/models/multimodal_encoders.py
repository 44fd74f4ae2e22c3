"""Triton model `multimodal_encoders`; what it does is in mm_runtime.serving.encode.model."""

from collections.abc import Sequence
from typing import Any

from mm_runtime.serving.encode.model import EncoderModel
from mm_runtime.serving.encode.placing import placing
from mm_runtime.serving.gpu_guard import loading
from mm_runtime.serving.metrics.families import Executing, end_metrics
from mm_runtime.serving.send.deferred_response import DeferredResponse
from mm_runtime.serving.triton import ModelSettings


class TritonPythonModel:
    """Pixel values -> prompt embedding table, several requests in one run."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the vision engine; a text-only engine has none."""
        self._settings = ModelSettings(args)
        self._model = EncoderModel(self._settings, may_offload=True)
        self._executing = Executing("encoding")
        serving = self._settings.serving
        with loading("the vision encoder", serving.device):
            self._placed = placing(serving, self._settings.engine.manifest)

    def execute(self, requests: Sequence[Any]) -> None:
        """Hand the requests to the encoder's queue and return at once."""
        for request in requests:
            response = DeferredResponse(request, self._executing, self._settings.output_types)
            try:
                inputs = self._settings.kept_inputs(request)
                self._model.queue.submit(inputs, self._placed(inputs, response.send))
            except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
                response.send(error)

    def finalize(self) -> None:
        """End the threads; Triton has let running requests finish before."""
        self._model.queue.close()
        end_metrics()
