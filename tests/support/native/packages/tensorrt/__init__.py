"""Stands in for TensorRT's Python module: what a server calls to run an engine, with its checks.

An engine is a JSON document: names, types and profiles as `tensorrt_llm/tools/
multimodal_builder.py` builds them, and the path of the ONNX tower that computes, or the graph of
one that `building` made: by onnx's own evaluator, because images with TensorRT have no other.
Addresses are those of torch's tensors, which are looked up: type, size and contiguity are checked
where the real module would read other memory. What it lacks is `MACHINE`'s; it fails as TensorRT
10.6 did on an H200 and without a driver: null pointers and None, and words on stderr alone.
"""

import base64
import gc
import json
import sys
from enum import Enum, IntEnum
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator

__version__ = "10.10.0.31"

TYPES = {
    "FLOAT": torch.float32,
    "HALF": torch.float16,
    "BF16": torch.bfloat16,
    "INT32": torch.int32,
    "INT64": torch.int64,
}


def __getattr__(name: str) -> Any:
    return getattr(import_module("tensorrt.building"), name)


class DataType(Enum):
    """Element types."""

    FLOAT = 0
    HALF = 1
    INT32 = 3
    BOOL = 4
    INT64 = 8
    BF16 = 7


class TensorIOMode(Enum):
    """Whether an engine reads a tensor or writes it."""

    NONE = 0
    INPUT = 1
    OUTPUT = 2


class TensorLocation(Enum):
    """Which memory a tensor lies in."""

    DEVICE = 0
    HOST = 1


MACHINE = SimpleNamespace(driver=True, free_bytes=1 << 40)
"""What a test may take away."""


class ILogger:
    """Gets every message."""

    class Severity(IntEnum):
        """How bad a message is."""

        INTERNAL_ERROR = 0
        ERROR = 1
        WARNING = 2
        INFO = 3
        VERBOSE = 4

    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = Severity

    def log(self, severity: Severity, msg: str) -> None:
        raise NotImplementedError


class Logger(ILogger):
    """Writes to stderr."""

    def __init__(self, min_severity: ILogger.Severity = ILogger.WARNING) -> None:
        self.min_severity = min_severity

    def log(self, severity: ILogger.Severity, msg: str) -> None:
        if severity <= self.min_severity:
            sys.stderr.write(f"[TRT] [{severity.name[0]}] {msg}\n")


class ExecutionContextAllocationStrategy(Enum):
    """Who gives a context its memory."""

    STATIC = 0
    USER_MANAGED = 2


class Runtime:
    """Loads engines."""

    def __init__(self, logger: ILogger) -> None:
        assert isinstance(logger, ILogger), "a logger is needed"
        self._log = logger.log
        if not MACHINE.driver:
            self._log(ILogger.ERROR, "CUDA initialization failure with error: 35")
            raise TypeError("pybind11::init(): factory function returned nullptr")

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> "ICudaEngine | None":
        """Return an engine; None for one that is cut, of another version, or too large.

        TensorRT has no checksum: one whose middle was overwritten is loaded, here and there.
        """
        try:
            found = json.loads(serialized_engine.decode(errors="replace"), strict=False)
        except ValueError:
            return self._refused("Error Code 1: Serialization (Serialization assertion failed.)")
        if found["tensorrt"] != __version__:
            return self._refused(f"expecting library version {__version__} got another one")
        if found.get("weights_bytes", 0) > MACHINE.free_bytes:
            return self._refused("Error Code 1: Cuda Runtime (out of memory)")
        return ICudaEngine(found, self._log)

    def _refused(self, words: str) -> None:
        self._log(ILogger.ERROR, words)


class ICudaEngine:
    """Names, types and shapes of an engine's tensors."""

    def __init__(self, built: dict[str, Any], log: Any) -> None:
        self.built = built
        self._log = log
        self.output = built["output"].get("name", "encoder_output")
        self._names = [*built["inputs"], self.output]

    @property
    def num_io_tensors(self) -> int:
        return len(self._names)

    def get_tensor_name(self, index: int) -> str:
        return self._names[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if name in self.built["inputs"] else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        held = self.built["inputs"].get(name, self.built["output"])
        return DataType[held["dtype"]]

    def get_tensor_location(self, name: str) -> TensorLocation:
        """Return host memory, where the stand-in computes; the real one's are on a GPU."""
        assert name in self._names, name
        return TensorLocation.HOST

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        return [tuple(shape) for shape in self._profiles(name)[profile_index]]

    def _profiles(self, name: str) -> list[Any]:
        held = self.built["inputs"][name]
        return held["profiles"] if "profiles" in held else [held["profile"]]

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._profiles(next(iter(self.built["inputs"]))))

    device_memory_size_v2 = 256

    def create_execution_context(
        self, strategy: ExecutionContextAllocationStrategy
    ) -> "IExecutionContext | None":
        """Return a context; None where memory for the largest profile is missing."""
        assert strategy is ExecutionContextAllocationStrategy.USER_MANAGED, strategy
        if self.built.get("context_bytes", 0) > MACHINE.free_bytes:
            self._log(ILogger.ERROR, "Error Code 2: OutOfMemory (no further information)")
            return None
        return IExecutionContext(self, self._log)


class IExecutionContext:
    """Shapes and addresses of one run."""

    def __init__(self, engine: ICudaEngine, log: Any) -> None:
        self._engine = engine
        self._log = log
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}
        built, graph = engine.built, engine.built.get("graph")
        model = onnx.load_from_string(base64.b64decode(graph)) if graph else built["onnx"]
        self._tower, self._memory = ReferenceEvaluator(model), False
        self._profile = 0

    @property
    def active_optimization_profile(self) -> int:
        return self._profile

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        """Have other ranges of shapes; those that were set are forgotten."""
        assert isinstance(stream_handle, int), "a stream is an address"
        self._shapes.clear()
        self._profile = profile_index
        return profile_index < self._engine.num_optimization_profiles

    def set_device_memory(self, memory: int, size: int) -> None:
        self._memory = bool(memory) and size >= self._engine.device_memory_size_v2

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        least, _, most = self._engine.get_tensor_profile_shape(name, self._profile)
        fits = len(shape) == len(least) and all(
            low <= one <= high for low, one, high in zip(least, shape, most, strict=True)
        )
        if fits:
            self._shapes[name] = tuple(shape)
        return fits

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        """Return a tensor's shape; -1 where inputs have none yet."""
        if name in self._shapes:
            return self._shapes[name]
        assert name == self._engine.output, name
        built, inputs = self._engine.built, self._engine.built["inputs"]
        if set(inputs) - set(self._shapes):
            return (-1,)
        first = self._shapes[next(iter(inputs))][0]
        if built["kind"] == "graph":
            types = {at: TYPES[one["dtype"]] for at, one in inputs.items()}
            zeros = {at: torch.zeros(self._shapes[at], dtype=one) for at, one in types.items()}
            return self._graph(zeros).shape
        if built["kind"] == "patches":
            return (first // built["merged"], built["hidden"])
        if built["kind"] == "tiles":
            tiles = self._shapes["pixel_values"][2]
            return (first, 1, tiles, built["rows"] // tiles, built["hidden"])
        return (first, built["rows"], built["hidden"])

    def set_tensor_address(self, name: str, memory: int) -> bool:
        self._addresses[name] = memory
        return True

    def execute_async_v3(self, stream_handle: int) -> bool:
        """Run the tower; every tensor must be what the engine was built for."""
        assert isinstance(stream_handle, int), "a stream is an address"
        if not MACHINE.driver:
            self._log(ILogger.ERROR, "Error Code 1: Cuda Runtime (an illegal access)")
            return False
        inputs = {name: self._tensor(name) for name in self._engine.built["inputs"]}
        assert self._memory, "the context has too little memory"
        output = self._tensor(self._engine.output)
        run = getattr(self, f"_{self._engine.built['kind']}")
        made = torch.from_numpy(run(inputs))
        output.copy_(made.reshape(output.shape).to(output.dtype))
        return True

    def _tensor(self, name: str) -> torch.Tensor:
        address = self._addresses[name]
        held = [
            one
            for one in gc.get_objects()
            if type(one) is torch.Tensor and one.numel() and one.data_ptr() == address
        ]
        assert held, f"{name}: no tensor lives at its address any more"
        dtype = TYPES[self._engine.get_tensor_dtype(name).name]
        shape = self.get_tensor_shape(name)
        fitting = [
            one
            for one in held
            if one.is_contiguous() and one.dtype == dtype and tuple(one.shape) == shape
        ]
        found = [(tuple(one.shape), one.dtype, one.is_contiguous()) for one in held]
        assert fitting, f"{name}: {found} at its address, expected contiguous {shape} of {dtype}"
        return fitting[0]

    def _graph(self, inputs: dict[str, torch.Tensor]) -> np.ndarray[Any, Any]:
        return self._run(**{name: one.numpy() for name, one in inputs.items()})

    def _pixels(self, inputs: dict[str, torch.Tensor]) -> np.ndarray[Any, Any]:
        return self._run(pixel_values=inputs["input"].float().numpy())

    def _tiles(self, inputs: dict[str, torch.Tensor]) -> np.ndarray[Any, Any]:
        given = {name: one.squeeze(1) for name, one in inputs.items()}
        given["pixel_values"] = given["pixel_values"].float()
        return self._run(**{name: one.numpy() for name, one in given.items()})

    def _patches(self, inputs: dict[str, torch.Tensor]) -> np.ndarray[Any, Any]:
        """Run each block of the mask alone; positions are read out of the angles."""
        mask, angles = inputs["attention_mask"][0].float().numpy(), inputs["rotary_pos_emb"]
        positions = angles[:, [0, angles.shape[1] // 2]].round().long().numpy()
        patches = inputs["input"].float().numpy()
        assert set(np.unique(mask)) <= {0.0, float(np.finfo(np.float16).min)}, "mask values"
        found, at = [], 0
        while at < len(mask):
            end = at + int((mask[at] == 0).sum())
            block = np.full_like(mask[at], np.finfo(np.float16).min)
            block[at:end] = 0
            assert (mask[at:end] == block).all(), f"the mask's block at {at} is no square"
            made = self._run(
                pixel_values=patches[None, at:end], patch_positions=positions[None, at:end]
            )
            found.append(made[0])
            at = end
        return np.concatenate(found)

    def _run(self, **inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        made: np.ndarray[Any, Any] = self._tower.run(None, inputs)[0]  # type: ignore[index]
        return made
