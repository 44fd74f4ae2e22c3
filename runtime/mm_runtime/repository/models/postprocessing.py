"""Triton model `postprocessing`: see mm_runtime.serving.postprocess."""

from collections.abc import Sequence
from typing import Any

from mm_runtime.serving.postprocess.postprocessing import write_text
from mm_runtime.serving.prompts.tokens import TextCodec
from mm_runtime.serving.triton import ModelSettings, answer_each


class TritonPythonModel:
    """Token ids -> the text they add."""

    def initialize(self, args: dict[str, str]) -> None:
        self._settings = ModelSettings(args)
        self._codec = TextCodec(self._settings.engine.tokenizer)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        return answer_each(
            requests,
            lambda request: write_text(self._codec.decode, self._settings.inputs(request)),
        )
