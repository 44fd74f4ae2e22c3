"""Triton model that reads the counter's responses as `tensorrt_llm_bls` reads the engine's."""

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from mm_runtime.serving.bls.calls import FinishedResponses, TritonCalls

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """Reads answers, and sees which thread frees them."""

    def initialize(self, args: dict[str, str]) -> None:
        del args
        self._own = threading.get_native_id()
        self._elsewhere = 0
        self._finished = FinishedResponses()

    def execute(self, requests: Sequence[Any]) -> None:
        for request in requests:
            sender = request.get_response_sender()
            self._finished.free(sender)
            count = pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()
            for piece in TritonCalls("", self._finished).pieces(
                "counter", {"COUNT": count}, ["NUMBER"]
            ):
                weakref.finalize(piece["NUMBER"], self._freed)
            reported = pb_utils.Tensor("ELSEWHERE", np.array([self._elsewhere], dtype=np.int32))
            sender.send(pb_utils.InferenceResponse(output_tensors=[reported]), flags=FINAL)

    def _freed(self) -> None:
        self._elsewhere += threading.get_native_id() != self._own
