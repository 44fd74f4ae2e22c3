"""The one place that knows Triton's Python backend: tensors in, responses and error codes out.

`triton_python_backend_utils` exists only inside the server's own process, so nothing but the models
of `mm_runtime.repository.models` imports this module.
"""

import faulthandler
import json
import logging
import os
import select
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.errors import (
    INVALID_ARGUMENT,
    UNAVAILABLE,
    EngineStoppedError,
    GpuLostError,
    MemoryFullError,
    PoolFullError,
    QueueFullError,
    RequestError,
    for_client,
)
from mm_runtime.serving.tensors import BFLOAT16_BITS, Tensors, of_bfloat16

logger = logging.getLogger(__name__)

Outputs = dict[str, NDArray[Any]]

BFLOAT16 = "TYPE_BF16"
FRACTIONS = {"TYPE_FP16": np.float16, "TYPE_FP32": np.float32}
NOTHING_DECLARED: Mapping[str, str] = MappingProxyType({})


_UNAVAILABLE = (
    EngineStoppedError,
    GpuLostError,
    MemoryFullError,
    PoolFullError,
    QueueFullError,
)


def end_with(pid: int) -> None:
    """End this process with another one, at once, also where no one has reaped that one yet.

    Triton's own check, every 0.3 s, takes such a server for a running one, and then leaves by the
    exit handlers of all libraries beside their threads, where processes have hung. A parent-death
    signal is no help: it comes with the end of the server's thread that started the model.

    Args:
        pid: of a process; nothing is watched when it has gone, nor where the kernel has no
            descriptors of processes (sandboxes): Triton's check is left there.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return

    def wait() -> None:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        ended.poll()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name=f"end-with-{pid}", daemon=True).start()


class ModelSettings:
    """The parameters of one model's config.pbtxt, and the documents they name."""

    def __init__(self, arguments: dict[str, str]) -> None:
        config = json.loads(arguments["model_config"])
        self.parameters = {
            name: value["string_value"] for name, value in config.get("parameters", {}).items()
        }
        self._outputs = {tensor["name"]: tensor["data_type"] for tensor in config["output"]}
        self.batches = bool(config["max_batch_size"])
        """Tensors begin with the axis of a batch."""
        self.decoupled = bool(config.get("model_transaction_policy", {}).get("decoupled"))
        """The model may send any number of responses to a request."""

        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
        # A crash in C says in the pod's log which model it was and what it did: Triton says only
        # that the model is not healthy.
        faulthandler.enable()
        end_with(os.getppid())

    @property
    def engine(self) -> EngineDirectory:
        return EngineDirectory.open(Path(self.parameters["engine_dir"]))

    @property
    def serving(self) -> ServingPlan:
        return ServingPlan.from_json(Path(self.parameters["serving_plan"]).read_bytes())

    @property
    def output_names(self) -> frozenset[str]:
        return frozenset(self._outputs)

    def text(self, name: str) -> str:
        found: str = self.parameters[name]
        return found

    def number(self, name: str, default: float) -> float:
        return float(self.parameters.get(name, default))

    @property
    def output_types(self) -> Mapping[str, str]:
        """Name of each output -> Triton's name of its element type."""
        return self._outputs

    def output_dtype(self, name: str) -> Any:
        """Return the numpy type in which a model makes one of the outputs."""
        kind = self._outputs[name]
        return np.float32 if kind == BFLOAT16 else pb_utils.triton_string_to_numpy(kind)

    def tensors(self, request: Any) -> dict[str, Any]:
        """Return the tensors that the request holds, as Triton's own objects."""
        # All at once: `get_input_tensor_by_name` lists all of them again for each name.
        return {tensor.name(): tensor for tensor in request.inputs()}

    def inputs(self, request: Any) -> Tensors:
        return {name: tensor.as_numpy() for name, tensor in self.tensors(request).items()}

    def kept_inputs(self, request: Any) -> Tensors:
        """Return copies, for after the call: the request's own memory is Triton's again then."""
        return {name: tensor.copy() for name, tensor in self.inputs(request).items()}


def respond(
    outputs: Outputs,
    types: Mapping[str, str] = NOTHING_DECLARED,
    requested: frozenset[str] | None = None,
) -> Any:
    """Return a response with these tensors.

    `types`: element types that the configuration declares; those of numbers with a fraction are
    converted, and all others sent as they are. `requested`: outputs that the request names;
    required of what a response sender sends. A sender of Triton 2.51 frees all others without the
    GIL: with Python 3.12 that is a segmentation fault, and with 3.11 a race. None where `execute`
    returns the response.
    """
    tensors = [
        _tensor(name, array, types.get(name, ""))
        for name, array in outputs.items()
        if requested is None or name in requested
    ]
    return pb_utils.InferenceResponse(output_tensors=tensors)


def _tensor(name: str, array: NDArray[Any], declared: str) -> Any:
    if not isinstance(array, np.ndarray):  # of torch, in the type that is declared
        return pb_utils.Tensor.from_dlpack(name, array)
    if declared == BFLOAT16:
        return _bfloat16(name, array)
    made = of_bfloat16(array) if array.dtype == BFLOAT16_BITS else np.ascontiguousarray(array)
    return pb_utils.Tensor(name, made.astype(FRACTIONS.get(declared, made.dtype), copy=False))


def _bfloat16(name: str, array: NDArray[Any]) -> Any:
    """Return a tensor of a type that numpy does not have: by DLPack, from torch."""
    # Seconds: they load torch, which only engines of bfloat16 need.
    import torch  # noqa: PLC0415

    from mm_runtime.serving.device import CPU, as_tensor  # noqa: PLC0415

    tensor = as_tensor(array, CPU, torch.bfloat16)
    return pb_utils.Tensor.from_dlpack(name, tensor.__dlpack__())


def refuse(error: Exception) -> Any:
    """Return a response with an error and the code that says on which side the fault is."""
    error = for_client(error)
    if isinstance(error, RequestError):
        code, name = pb_utils.TritonError.INVALID_ARG, INVALID_ARGUMENT
    elif isinstance(error, _UNAVAILABLE):
        code, name = pb_utils.TritonError.UNAVAILABLE, UNAVAILABLE
    else:
        code, name = pb_utils.TritonError.INTERNAL, ""
        logger.error("a request failed", exc_info=error)
    message = name + (str(error) or type(error).__name__)
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))


def answer_each(requests: Sequence[Any], answer: Callable[[Any], Outputs]) -> list[Any]:
    """Return one response a request; what goes wrong with one stays with it."""
    responses = []
    for request in requests:
        try:
            responses.append(respond(answer(request)))
        except Exception as error:  # noqa: BLE001 (the client gets it, and the server lives on)
            responses.append(refuse(error))
    return responses
