"""A vision half as torch exported it, run by torch itself on the processor or on a GPU."""

from pathlib import Path
from typing import Any

import torch
from torch.export.passes import move_to_device_pass

from mm_runtime.serving.device import CPU, as_tensor, is_gpu
from mm_runtime.serving.encode.vision.runner import Inputs, Rows


class TorchRunner:
    """An exported program on a device."""

    def __init__(
        self, model: Path, *, threads: int = 1, device: torch.device = CPU, keeps: bool = False
    ) -> None:
        """Load the program.

        Args:
            model: what the build exported, for the processor.
            threads: processor threads of one run.
            device: where it runs.
            keeps: features of a GPU stay there, as tensors; else they come back as arrays.
        """
        torch.set_num_threads(threads)
        program = torch.export.load(model)
        if is_gpu(device):
            program = move_to_device_pass(program, device)
        self._device, self._keeps = device, keeps and is_gpu(device)
        self._module: Any = program.module()

    @torch.inference_mode()
    def __call__(self, inputs: Inputs) -> Rows:
        """Run one batch."""
        tensors = {name: as_tensor(one, self._device) for name, one in inputs.items()}
        features = self._module(**tensors)
        return features if self._keeps else features.cpu().numpy()
