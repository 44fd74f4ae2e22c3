"""Runs a vision engine on batches of any size, by the runner that its plan names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from mm_api.documents.serving_plan import Device
from mm_runtime.serving.encode.vision.cache import FeatureCache
from mm_runtime.serving.encode.vision.runner import Inputs, Rows, Runner, RunnerOptions
from mm_runtime.serving.encode.vision.tensorrt_open import ENGINES, tensorrt_of_image

TOWER = "model"
"""Name of the exported file."""

ONNX, TORCH = ".onnx", ".pt2"


class VisionSession:
    """A vision engine that cuts large batches into several runs."""

    def __init__(
        self, runner: Runner, *, max_batch_size: int, cache: FeatureCache | None = None
    ) -> None:
        """Connect the parts.

        `max_batch_size`: entries in one run at most. `cache`: None encodes everything.
        """
        self._runner = runner
        self._max_batch_size = max_batch_size
        self._cache = cache

    def run(self, inputs: Inputs, salt: bytes = b"") -> Rows:
        """Return features float32 [batch, rows, hidden] of inputs [batch, ...]."""
        if self._cache is None:
            return self._run(inputs)
        return self._cache.through(inputs, self._run, salt)

    def _run(self, inputs: Inputs) -> Rows:
        length = len(next(iter(inputs.values())))
        runs = [
            self._runner(
                {name: array[at : at + self._max_batch_size] for name, array in inputs.items()}
            )
            for at in range(0, length, self._max_batch_size)
        ]
        return runs[0] if len(runs) == 1 else joined(runs)


def joined(runs: Sequence[Rows]) -> Rows:
    if isinstance(runs[0], np.ndarray):
        return np.concatenate(runs)
    import torch  # noqa: PLC0415 (the runner has loaded it: these are its tensors)

    return torch.cat(tuple(runs))


class OnnxRunner:
    """ONNX Runtime on CPU."""

    def __init__(self, model: Path, *, threads: int = 1) -> None:
        import onnxruntime  # noqa: PLC0415 (images that run TensorRT's engines lack it)

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # warnings on unused initialisers of exports have no use
        options.intra_op_num_threads = threads
        # Idle threads would spin on cores that the language model needs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session: Any = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, inputs: Inputs) -> NDArray[np.float32]:
        """Run one batch; the model takes float32, pixels may come as float16."""
        given = {
            name: one.astype(np.float32) if one.dtype == np.float16 else one
            for name, one in inputs.items()
        }
        features: NDArray[np.float32] = self._session.run(["features"], given)[0]
        return features


def open_runner(
    engine: str,
    folder: Path,
    *,
    threads: int = 1,
    device: Device = "CPU",
    **options: Unpack[RunnerOptions],
) -> Runner:
    """Load the vision engine of a folder.

    `engine`: `vision.engine` of the plan; one of TensorRT is a build's of ours, on a GPU. `device`:
    of the serving plan; ONNX Runtime computes on the processor all the same.

    Raises:
        ValueError: TensorRT is missing, or it cannot load the engine.
        OSError: the model is missing.
    """
    if engine == "ONNXRuntime":
        return OnnxRunner(folder / f"{TOWER}{ONNX}", threads=threads)
    if engine == "Torch":
        from mm_runtime.serving.device import open_device  # noqa: PLC0415 (seconds)
        from mm_runtime.serving.encode.vision.torch_runner import TorchRunner  # noqa: PLC0415

        opened = open_device(device)
        return TorchRunner(folder / f"{TOWER}{TORCH}", threads=threads, device=opened, **options)
    with tensorrt_of_image(folder):
        from mm_runtime.serving.encode.vision.tensorrt_runner import TensorRTRunner  # noqa: PLC0415

    return TensorRTRunner(folder / ENGINES[0], **options)
