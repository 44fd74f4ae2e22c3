"""One model of the server calls the others: requests out, responses in, errors kept as they are.

Only ever from the thread that runs `execute`: several threads of one stub that iterate decoupled
responses at once have stopped the server (Triton 2.51, twelve streams).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from mm_runtime.serving.errors import (
    INVALID_ARGUMENT,
    QUEUE_FULL,
    UNAVAILABLE,
    EngineStoppedError,
    QueueFullError,
    RequestError,
)
from mm_runtime.serving.tensors import Tensors
from mm_runtime.serving.triton import Outputs

LANGUAGE_MODEL = "tensorrt_llm"


class FinishedResponses:
    """Answers that were read to their end, kept until the stub has let go of them.

    The stub of Triton 2.51 lets go of an answer in a thread of its own, some time after the last
    response, and without the GIL. Were its reference the last one, it would free objects of Python
    under a thread that runs: a segmentation fault in thousands of requests. That thread runs one
    call after the other, so once it has returned whether a request is cancelled, it has let go of
    every answer that ended before. Of one thread, the one that runs `execute`.
    """

    def __init__(self) -> None:
        self._answers: list[Any] = []

    def keep(self, answer: Any) -> None:
        """Keep an answer, from before its end."""
        self._answers.append(answer)

    def free(self, sender: Any) -> None:
        """Free what is kept, when a request comes.

        `sender`: of that request, never polled before: the first time, Triton itself is queried.
        """
        sender.is_cancelled()
        self.clear()

    def clear(self) -> None:
        """Free what is kept: Triton has been idle since, or ends the process."""
        self._answers.clear()


class TritonCalls:
    """Calls other models on behalf of one request, under its id."""

    def __init__(self, request_id: str, ended: FinishedResponses) -> None:
        self._request_id, self._finished = request_id, ended

    def once(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Outputs:
        return _outputs(self._request(model, inputs, outputs).exec())

    def pieces(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Iterator[Outputs]:
        """Yield each response of a model that sends several; empty ones are left out."""
        answer = self._request(model, inputs, outputs).exec(decoupled=True)
        self._finished.keep(answer)
        for response in answer:
            found = _outputs(response)
            if found:
                yield found

    def stop(self) -> None:
        one = np.array([[1]], dtype=np.int32)
        inputs = {"input_lengths": one, "request_output_len": one, "stop": np.array([[True]])}
        for _ in self.pieces(LANGUAGE_MODEL, inputs, ("output_ids",)):
            pass

    def _request(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> Any:
        tensors = [_tensor(name, value) for name, value in inputs.items()]
        return pb_utils.InferenceRequest(
            model_name=model,
            request_id=self._request_id,
            inputs=tensors,
            requested_output_names=list(outputs),
            # Responses become numpy arrays; nothing of them is to be taken from the CUDA pool.
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
        )


def _outputs(response: Any) -> Outputs:
    if response.has_error():
        raise _error(response.error())
    return {tensor.name(): _value(tensor) for tensor in response.output_tensors()}


def _value(tensor: Any) -> Any:
    """Return a tensor's array; one of bfloat16, which numpy does not know, stays as it is."""
    try:
        return tensor.as_numpy()
    except pb_utils.TritonModelException:
        return tensor


def _tensor(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return pb_utils.Tensor(name, np.ascontiguousarray(value))
    return pb_utils.Tensor.from_dlpack(name, value.to_dlpack())


def _error(error: Any) -> Exception:
    """Return the error as the other model raised it, or as the server refused the request."""
    message: str = error.message()
    kinds = {INVALID_ARGUMENT: RequestError, UNAVAILABLE: EngineStoppedError}
    for prefix, kind in kinds.items():
        if message.startswith(prefix):
            return kind(message.removeprefix(prefix))
    if QUEUE_FULL in message:
        return QueueFullError(message)
    return RuntimeError(message)
