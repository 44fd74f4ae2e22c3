"""A vision engine of TensorRT-LLM's builder, run by the image's own TensorRT.

The engine says what types and shapes it takes; `builder_tensors` says what belongs into it.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorrt  # type: ignore[import-not-found]  # in TensorRT-LLM's images only
import torch
from numpy.typing import NDArray

from mm_runtime.serving.device import CPU, GpuUnusableError, why_unusable
from mm_runtime.serving.encode.vision.builder_tensors import OUTPUT, EngineTensors
from mm_runtime.serving.encode.vision.runner import Inputs, Rows

TYPES = {
    "FLOAT": torch.float32,
    "HALF": torch.float16,
    "BF16": torch.bfloat16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "BOOL": torch.bool,
}
"""Name of a `tensorrt.DataType` -> torch's type."""


class _Log(tensorrt.ILogger):  # type: ignore[misc]  # of a module that is not here
    """Writes TensorRT's log to stderr, as its own logger does; its calls return no reasons."""

    def __init__(self) -> None:
        tensorrt.ILogger.__init__(self)
        self.error = "nothing"

    def log(self, severity: Any, words: str) -> None:
        """Take a line, from whichever thread."""
        if int(severity) <= int(tensorrt.ILogger.WARNING):
            sys.stderr.write(f"[TRT] {words}\n")
        if int(severity) <= int(tensorrt.ILogger.ERROR):
            self.error = words


class TensorRTEngine:
    """A serialized engine with one execution context, for one thread."""

    def __init__(self, path: Path) -> None:
        """Load the engine.

        Raises:
            OSError: the file is missing.
            ValueError: this TensorRT cannot load it, or it has other outputs than expected.
            GpuUnusableError: CUDA does not start in this process, or torch cannot use it.
            torch.OutOfMemoryError: the GPU has too little memory for its largest profile.
        """
        self._log = _Log()
        try:
            self._runtime = tensorrt.Runtime(self._log)
        except TypeError as error:  # pybind11's word for a null pointer: TensorRT gives no more
            raise GpuUnusableError(
                f"TensorRT {tensorrt.__version__} finds no GPU that this process can use; it says"
                f" {self._log.error}. The pod has no GPU, or the node's driver is older than the"
                " image's CUDA"
            ) from error
        self._engine: Any = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if self._engine is None:
            said = self._log.error
            if "out of memory" in said:
                raise torch.OutOfMemoryError(f"TensorRT has no memory for {path}: {said}")
            raise ValueError(
                f"{path}: TensorRT {tensorrt.__version__} cannot load this engine; it was built by"
                " another version, or for another GPU. Build it with the image that serves it."
                f" TensorRT says {said}"
            )
        self._context: Any = self._engine.create_execution_context()
        if self._context is None:
            raise torch.OutOfMemoryError(
                f"TensorRT has no memory for the largest images of {path}: {self._log.error}"
            )
        names = [self._engine.get_tensor_name(at) for at in range(self._engine.num_io_tensors)]
        self._device, self._stream = self._placed(names)
        mode, given = self._engine.get_tensor_mode, tensorrt.TensorIOMode.INPUT
        self.inputs = frozenset(name for name in names if mode(name) == given)
        outputs = [name for name in names if name not in self.inputs]
        if outputs != [OUTPUT]:
            raise ValueError(f"{path}: the engine gives out {outputs}, expected {[OUTPUT]}")

    def _placed(self, names: Sequence[str]) -> tuple[torch.device, Any]:
        """Return where the tensors lie, and the stream of runs; a host address would end them."""
        where = self._engine.get_tensor_location
        if all(where(name) == tensorrt.TensorLocation.HOST for name in names):
            return CPU, None
        if why := why_unusable():
            raise GpuUnusableError(f"TensorRT has a GPU, and torch cannot give it tensors: {why}")
        return torch.device("cuda", 0), torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def least(self, name: str) -> int:
        """Return the smallest first dimension of an input."""
        shapes = self._engine.get_tensor_profile_shape(name, 0)
        return int(shapes[0][0])

    def run(self, inputs: Inputs, *, keeps: bool = False) -> Rows:
        """Return the output of one run, as float32 in host memory.

        Args:
            inputs: arrays by name.
            keeps: return the tensor as it is, complete, where the engine runs on a GPU.

        Raises:
            ValueError: names or shapes that the engine was not built for.
        """
        if set(inputs) != self.inputs:
            raise ValueError(f"got {sorted(inputs)}; the engine takes {sorted(self.inputs)}")
        with torch.cuda.stream(self._stream):
            tensors = {name: self._tensor(name, array) for name, array in inputs.items()}
            for name, tensor in tensors.items():
                if not self._context.set_input_shape(name, tuple(tensor.shape)):
                    least, _, most = self._engine.get_tensor_profile_shape(name, 0)
                    raise ValueError(
                        f"{name}: got shape {list(tensor.shape)}; the engine was built for"
                        f" {list(least)} to {list(most)}"
                    )
            shape = tuple(self._context.get_tensor_shape(OUTPUT))
            output = torch.empty(shape, dtype=self._type(OUTPUT), device=self._device)
            for name, tensor in {**tensors, OUTPUT: output}.items():
                self._context.set_tensor_address(name, tensor.data_ptr())
            stream = self._stream.cuda_stream if self._stream else 0
            if not self._context.execute_async_v3(stream):
                raise RuntimeError(
                    f"the vision engine's run failed; TensorRT says {self._log.error}"
                )
            if keeps and self._stream:
                self._stream.synchronize()
                return output
            return output.float().cpu().numpy()  # waits for the stream

    def _tensor(self, name: str, array: NDArray[Any]) -> torch.Tensor:
        host = torch.from_numpy(np.ascontiguousarray(array))
        return host.to(device=self._device, dtype=self._type(name)).contiguous()

    def _type(self, name: str) -> torch.dtype:
        return TYPES[self._engine.get_tensor_dtype(name).name]


class TensorRTRunner:
    """One family's engine as every other runner: named batches in, features out."""

    def __init__(
        self,
        path: Path,
        tensors: Callable[[TensorRTEngine], EngineTensors],
        *,
        keeps: bool = False,
    ) -> None:
        """Load the engine; `tensors` says what it takes, `keeps` is that of `run`.

        Raises:
            OSError, ValueError: as `TensorRTEngine`.
        """
        self._engine, self._keeps = TensorRTEngine(path), keeps
        self._tensors = tensors(self._engine)

    def __call__(self, inputs: Inputs) -> Rows:
        """Run one batch."""
        output = self._engine.run(self._tensors.inputs(inputs), keeps=self._keeps)
        return self._tensors.features(inputs, output)
