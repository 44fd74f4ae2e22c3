"""A vision half as torch exported it, run by torch itself."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mm_runtime.serving.encode.vision.runner import Inputs


class TorchRunner:
    """An exported program on CPU."""

    def __init__(self, model: Path, *, threads: int = 1) -> None:
        """Load the program; `threads` are the processor threads of one run."""
        torch.set_num_threads(threads)
        self._module: Any = torch.export.load(model).module()

    @torch.inference_mode()
    def __call__(self, inputs: Inputs) -> NDArray[np.float32]:
        """Run one batch."""
        tensors = {
            name: torch.from_numpy(np.ascontiguousarray(one)) for name, one in inputs.items()
        }
        features: NDArray[np.float32] = self._module(**tensors).numpy()
        return features
