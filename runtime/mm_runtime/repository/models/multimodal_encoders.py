"""Triton model `multimodal_encoders`; what it does is in mm_runtime.engine.encoding."""

from collections.abc import Sequence
from typing import Any

from mm_runtime.engine.encoder_model import EncoderModel
from mm_runtime.engine.triton import ModelSettings, refuse, respond


class TritonPythonModel:
    """Pixel values -> prompt embedding table, several requests in one run."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the vision engine; a text-only engine has none."""
        self._settings = ModelSettings(args)
        self._model = EncoderModel(self._settings, asks_others=True)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Encode the pictures of all requests together."""
        try:
            results = self._model.encode([self._settings.inputs(request) for request in requests])
        except Exception as error:  # noqa: BLE001 (the clients get it, and the server lives on)
            return [refuse(error) for _ in requests]
        return [refuse(one) if isinstance(one, Exception) else respond(one) for one in results]
