"""Runs a vision half on a device: what torch exported, or what a build made of TensorRT."""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import torch

from mm_runtime.images.normalisation import CHANNELS, VALUES, Normalisation
from mm_runtime.serving.captures import capture_on
from mm_runtime.serving.device import as_tensor, to_host
from mm_runtime.serving.encode.vision.pixel_bytes import PIXELS
from mm_runtime.serving.encode.vision.runner import Inputs, Rows, RunnerOptions

GRAPHS = (1, 2, 4, 8)
"""Images of the passes that are captured: starting the kernels of one image of CLIP ViT-L/14-336
takes the processor three times as long as the GPU computes (H200). More images keep it busy."""

Module = Callable[..., torch.Tensor]
"""Tensors of a device by name -> features [batch, rows, hidden] there."""


class DeviceRunner:
    """A module on a device, with values in the types that it takes."""

    _module: Module
    _dtype = torch.float32

    def __init__(self, device: torch.device, **options: Unpack[RunnerOptions]) -> None:
        self._device, self._keeps = device, options.get("keeps", False)
        leave_as, normalisation = options.get("leave_as", ""), options.get("normalisation")
        self._leave_as: torch.dtype | None = getattr(torch, leave_as) if leave_as else None
        self._normalise = NormalisedOn(device, normalisation) if normalisation else None
        self._passes: dict[int, Callable[[], torch.Tensor]] = {}

    @torch.inference_mode()
    def __call__(self, inputs: Inputs) -> Rows:
        count = len(next(iter(inputs.values())))
        sizes = sorted(self._passes)
        if sizes and count <= sizes[-1]:
            size = sizes[bisect_left(sizes, count)]
            self._pixels[:count].copy_(self._on_device(inputs[PIXELS]))
            # The next run overwrites what this one returns.
            features = self._passes[size]()[:count].clone()
        else:
            tensors = {name: self._taken(name, one) for name, one in inputs.items()}
            features = self._module(**tensors)
        if self._keeps and features.is_cuda:
            return features
        if self._leave_as is None:
            return features.float().cpu().numpy()
        # Converted before the copy: in 16 bits it has half of the bytes, and none is left to do.
        return to_host(features.to(self._leave_as))

    def _on_device(self, values: Any) -> torch.Tensor:
        tensor = as_tensor(values, self._device)
        is_bytes = self._normalise is not None and tensor.dtype == torch.uint8
        return self._normalise(tensor) if self._normalise and is_bytes else tensor

    def _taken(self, _: str, values: Any) -> torch.Tensor:
        tensor = self._on_device(values)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    @torch.inference_mode()
    def _capture(self, side: int, graphs: int) -> None:
        sizes = [size for size in GRAPHS if size <= graphs]
        shape = (sizes[-1], 3, side, side)
        self._pixels = torch.zeros(shape, dtype=self._dtype, device=self._device)
        capture = capture_on(self._device)
        for size in reversed(sizes):
            self._passes[size] = capture(partial(self._fixed(), pixel_values=self._pixels[:size]))

    def _fixed(self) -> Module:
        return self._module


class NormalisedOn:
    """Normalises bytes on a device: the bits of the processor, from the same table."""

    def __init__(self, device: torch.device, normalisation: Normalisation) -> None:
        self._table = torch.from_numpy(normalisation.table()).to(device).reshape(-1)
        starts = torch.arange(CHANNELS, dtype=torch.int32, device=device) * VALUES
        self._starts = starts[:, None, None]

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return float16 [images, 3, height, width] of bytes [images, height, width, 3]."""
        # In the order of the result, which would else keep that of the bytes.
        places = images.permute(0, 3, 1, 2).contiguous() + self._starts
        return self._table[places]
