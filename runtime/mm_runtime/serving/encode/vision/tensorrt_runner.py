"""A vision engine of a build of ours or of TensorRT-LLM's builder, run by the image's TensorRT.

The engine says what types and shapes it takes. One of ours takes a batch as it is, from the GPU or
from arrays; `builder_tensors` says what belongs into one of TensorRT-LLM's.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import tensorrt  # type: ignore[import-not-found]  # in TensorRT-LLM's images only
import torch

from mm_runtime.serving.device import CPU, GpuUnusableError, why_unusable
from mm_runtime.serving.encode.vision.builder_tensors import OUTPUT, EngineTensors
from mm_runtime.serving.encode.vision.device_runner import DeviceRunner, Module
from mm_runtime.serving.encode.vision.pixel_bytes import PIXELS
from mm_runtime.serving.encode.vision.runner import Inputs, Rows, RunnerOptions

TYPES = {
    "FLOAT": torch.float32,
    "HALF": torch.float16,
    "BF16": torch.bfloat16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "BOOL": torch.bool,
}
"""Name of a `tensorrt.DataType` -> torch's type."""

MOST_CAPTURED = 4
"""Images of the largest pass that is captured: more keep the GPU busy, and copies around a graph
cost 4 percent of eight (CLIP ViT-L/14-336 on an H200)."""


class Log(tensorrt.ILogger):  # type: ignore[misc]  # of a module that is not here
    """Writes TensorRT's log to stderr, as its own logger does; its calls return no reasons."""

    def __init__(self) -> None:
        tensorrt.ILogger.__init__(self)
        self.error = "nothing"

    def log(self, severity: Any, words: str) -> None:
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
        self._log = Log()
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
        names = [self._engine.get_tensor_name(at) for at in range(self._engine.num_io_tensors)]
        self.device, self._stream = self._placed(names)
        self._path, self.memory_bytes = path, int(self._engine.device_memory_size_v2)
        # One for all contexts: runs follow each other.
        self._memory = torch.empty(self.memory_bytes, dtype=torch.uint8, device=self.device)
        self._context = self.context()
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

    def context(self) -> Any:
        """Return what remembers the shapes of one kind of run.

        Raises:
            torch.OutOfMemoryError: TensorRT has no memory for it.
        """
        managed = tensorrt.ExecutionContextAllocationStrategy.USER_MANAGED
        made = self._engine.create_execution_context(managed)
        if made is None:
            raise torch.OutOfMemoryError(
                f"TensorRT has no memory for the largest images of {self._path}: {self._log.error}"
            )
        made.set_device_memory(self._memory.data_ptr(), self.memory_bytes)
        return made

    def least(self, name: str) -> tuple[int, ...]:
        return tuple(self._engine.get_tensor_profile_shape(name, 0)[0])

    def launch(self, tensors: Mapping[str, torch.Tensor], context: Any = None) -> torch.Tensor:
        """Return the output of a run that is started behind what the current stream does.

        `tensors`: of the engine's device and types. `context`: of runs of one shape; None: the one
        for all shapes.

        Raises:
            ValueError: names or shapes that the engine was not built for.
        """
        if set(tensors) != self.inputs:
            raise ValueError(f"got {sorted(tensors)}; the engine takes {sorted(self.inputs)}")
        context = context or self._context
        profile = self._profile_of(tensors)
        if context.active_optimization_profile != profile:
            handle = self._stream.cuda_stream if self._stream else 0
            context.set_optimization_profile_async(profile, handle)
        for name, tensor in tensors.items():
            context.set_input_shape(name, tuple(tensor.shape))
        shape = tuple(context.get_tensor_shape(OUTPUT))
        output = torch.empty(shape, dtype=self.type_of(OUTPUT), device=self.device)
        for name, tensor in {**tensors, OUTPUT: output}.items():
            context.set_tensor_address(name, tensor.data_ptr())
        if not self._execute(context):
            raise RuntimeError(f"the vision engine's run failed; TensorRT says {self._log.error}")
        return output

    def _profile_of(self, tensors: Mapping[str, torch.Tensor]) -> int:
        """Return the number of the first profile that has the shapes of all tensors."""
        count, shapes = (
            self._engine.num_optimization_profiles,
            self._engine.get_tensor_profile_shape,
        )
        for number in range(count):
            wrong = [
                name
                for name, tensor in tensors.items()
                if not _within(tensor.shape, *shapes(name, number))
            ]
            if not wrong:
                return number
        (least, _, _), (_, _, most) = shapes(wrong[0], 0), shapes(wrong[0], count - 1)
        raise ValueError(
            f"{wrong[0]}: got shape {list(tensors[wrong[0]].shape)}; the engine was built for"
            f" {list(least)} to {list(most)}"
        )

    def _execute(self, context: Any) -> bool:
        if self._stream is None:
            return bool(context.execute_async_v3(0))
        # On CUDA's default stream TensorRT would wait for the GPU.
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        started = bool(context.execute_async_v3(self._stream.cuda_stream))
        current.wait_stream(self._stream)
        return started

    def type_of(self, name: str) -> torch.dtype:
        return TYPES[self._engine.get_tensor_dtype(name).name]


def _within(shape: Sequence[int], least: Sequence[int], _: object, most: Sequence[int]) -> bool:
    return len(shape) == len(least) and all(
        low <= one <= high for low, one, high in zip(least, shape, most, strict=True)
    )


class TensorRTRunner(DeviceRunner):
    """One family's engine as every other runner: named batches in, features out."""

    def __init__(
        self,
        path: Path,
        tensors: Callable[[TensorRTEngine], EngineTensors] | None = None,
        **options: Unpack[RunnerOptions],
    ) -> None:
        """Load the engine; raises as `TensorRTEngine`.

        `tensors`: says what an engine of TensorRT-LLM takes; None: one of ours takes a batch.
        `options`: half is not one of an engine.
        """
        self.engine, self._contexts = TensorRTEngine(path), list[Any]()
        super().__init__(self.engine.device, **options)
        self._tensors = tensors(self.engine) if tensors else None
        self._module = self._running(None)
        if self.engine.device != CPU and (graphs := options.get("graphs")):
            self._dtype = self.engine.type_of(PIXELS)
            self._capture(self.engine.least(PIXELS)[-1], min(graphs, MOST_CAPTURED))

    def __call__(self, inputs: Inputs) -> Rows:
        if self._tensors is None:
            return super().__call__(inputs)
        output = super().__call__(self._tensors.inputs(inputs))
        return self._tensors.features(inputs, output)

    def _taken(self, name: str, values: Any) -> torch.Tensor:
        if name not in self.engine.inputs:
            raise ValueError(f"got {name}; the engine takes {sorted(self.engine.inputs)}")
        return self._on_device(values).to(self.engine.type_of(name)).contiguous()

    def _fixed(self) -> Module:
        # A captured run keeps its shapes, and its graph runs on what the context holds: a replay
        # after the context's end killed the process (TensorRT 10.6, H200).
        self._contexts.append(self.engine.context())
        return self._running(self._contexts[-1])

    def _running(self, context: Any) -> Module:
        return lambda **tensors: self.engine.launch(tensors, context)
