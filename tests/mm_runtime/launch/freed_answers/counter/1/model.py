"""Triton model that answers with as many responses as it is requested."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """Counts."""

    def execute(self, requests: Sequence[Any]) -> None:
        for request in requests:
            sender = request.get_response_sender()
            count = pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy().item()
            for number in range(count):
                tensor = pb_utils.Tensor("NUMBER", np.array([number], dtype=np.int32))
                sender.send(pb_utils.InferenceResponse(output_tensors=[tensor]))
            sender.send(flags=FINAL)
