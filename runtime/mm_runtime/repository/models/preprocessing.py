"""Triton model `preprocessing`; what it does is in mm_runtime.engine.preprocessing."""

from collections.abc import Sequence
from typing import Any

from mm_runtime.engine.preprocessing import Preprocessor
from mm_runtime.engine.triton import ModelSettings, answer_each


class TritonPythonModel:
    """Text and pictures -> token ids and pixel values."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load tokenizer, template and image processor."""
        self._settings = ModelSettings(args)
        self._preprocessor = Preprocessor.load(self._settings.engine, self._settings.serving)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer each request by itself."""
        return answer_each(
            requests, lambda request: self._preprocessor.prepare(self._settings.inputs(request))
        )
