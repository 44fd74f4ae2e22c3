"""One model of the server asks the others: requests out, responses in, errors kept as they are."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from mm_runtime.engine.errors import EngineStoppedError, RequestError
from mm_runtime.engine.tensors import Tensors
from mm_runtime.engine.triton import Outputs


def call_model(
    model: str, inputs: Tensors, outputs: Sequence[str], request_id: str
) -> Iterator[Outputs]:
    """Yield each response of a model; an empty last one is left out.

    Raises:
        RequestError: the model says that the request is wrong.
        EngineStoppedError: the model cannot take it now.
        RuntimeError: the model failed.
    """
    request = pb_utils.InferenceRequest(
        model_name=model,
        request_id=request_id,
        inputs=[pb_utils.Tensor(name, np.ascontiguousarray(one)) for name, one in inputs.items()],
        requested_output_names=list(outputs),
        # Responses become numpy arrays; nothing of them is to be taken from the CUDA pool.
        preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
    )
    for response in request.exec(decoupled=True):
        if response.has_error():
            raise _error(response.error())
        tensors = response.output_tensors()
        if tensors:
            yield {tensor.name(): tensor.as_numpy() for tensor in tensors}


def stop_answer(request_id: str) -> None:
    """End the answer that the language model gives to the request of this id."""
    one = np.array([[1]], dtype=np.int32)
    inputs = {"input_lengths": one, "request_output_len": one, "stop": np.array([[True]])}
    for _ in call_model("tensorrt_llm", inputs, ("output_ids",), request_id):
        pass


def _error(error: Any) -> Exception:
    kinds = {
        pb_utils.TritonError.INVALID_ARG: RequestError,
        pb_utils.TritonError.UNAVAILABLE: EngineStoppedError,
    }
    return kinds.get(error.code(), RuntimeError)(error.message())
