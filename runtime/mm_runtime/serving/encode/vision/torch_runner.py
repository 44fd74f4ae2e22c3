"""A vision half as torch exported it, run by torch itself on the processor or on a GPU."""

import logging
from bisect import bisect_left
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export.passes import move_to_device_pass

from mm_runtime.images.normalisation import CHANNELS, VALUES, Normalisation
from mm_runtime.serving.captures import capture_on
from mm_runtime.serving.device import CPU, as_tensor, is_gpu
from mm_runtime.serving.encode.vision.pixel_bytes import PIXELS
from mm_runtime.serving.encode.vision.runner import Inputs, Rows

logger = logging.getLogger(__name__)

GRAPHS = (1, 2, 4, 8)
"""Images of the passes that are captured: starting the kernels of one image of CLIP ViT-L/14-336
takes the processor three times as long as the GPU computes (H200). More images keep it busy."""

HALF_DISTANCE = 1e-2
"""Relative distance of features in float16 from those in float32 at the most: 0.0017 with CLIP
ViT-L/14-336 and random weights. A tower whose activations leave float16's range is far above."""

DARKEST, BRIGHTEST = -2.0, 2.7
"""Range of normalised pixels."""


class TorchRunner:
    """An exported program on a device."""

    def __init__(
        self,
        model: Path,
        *,
        threads: int = 1,
        device: torch.device = CPU,
        keeps: bool = False,
        half: bool = False,
        graphs: int = 0,
        normalisation: Normalisation | None = None,
        leave_as: str = "",
    ) -> None:
        """Load the program.

        Args:
            model: what the build exported, for the processor, in float32.
            threads: processor threads of one run.
            device: where it runs.
            keeps: features of a GPU stay there, as tensors; else they come back as arrays.
            half: on a GPU compute in float16, if features are nearly those of float32.
            graphs: on a GPU start passes of at most so many images as CUDA graphs. The program has
                pixels as its only input.
            normalisation: of pixels that come as bytes; None: none do.
            leave_as: torch's name of a type: features that do not stay on a GPU come as tensors of
                that type in host memory; empty: as arrays of float32.
        """
        torch.set_num_threads(threads)
        self._model = model
        program = _loaded(model, device)
        self._device, self._keeps = device, keeps and is_gpu(device)
        self._leave_as: torch.dtype | None = getattr(torch, leave_as) if leave_as else None
        self._module: Any = program.module()
        self._normalise = NormalisedOn(device, normalisation) if normalisation else None
        self._dtype = torch.float32
        self._passes: dict[int, Any] = {}
        if is_gpu(device) and half:
            self._halve(program)
        if is_gpu(device) and graphs:
            self._capture(_side(program), graphs)

    @torch.inference_mode()
    def __call__(self, inputs: Inputs) -> Rows:
        """Run one batch."""
        count = len(next(iter(inputs.values())))
        sizes = sorted(self._passes)
        if sizes and count <= sizes[-1]:
            size = sizes[bisect_left(sizes, count)]
            self._pixels[:count].copy_(self._on_device(inputs[PIXELS]))
            # The next run overwrites what this one returns.
            features = self._passes[size]()[:count].clone()
        else:
            tensors = {name: self._taken(one) for name, one in inputs.items()}
            features = self._module(**tensors)
        if self._keeps:
            return features
        if self._leave_as is None:
            return features.float().cpu().numpy()
        # Converted before the copy: in 16 bits it has half of the bytes, and none is left to do.
        return features.to(self._leave_as).cpu()

    def _on_device(self, values: Any) -> torch.Tensor:
        tensor = as_tensor(values, self._device)
        is_bytes = self._normalise is not None and tensor.dtype == torch.uint8
        return self._normalise(tensor) if self._normalise and is_bytes else tensor

    def _taken(self, values: Any) -> torch.Tensor:
        tensor = self._on_device(values)
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    @torch.inference_mode()
    def _halve(self, program: Any) -> None:
        """Compute in float16 from now on, or log why not."""
        side = _side(program)
        chance = torch.Generator().manual_seed(side)
        sample = torch.rand((1, 3, side, side), generator=chance) * (BRIGHTEST - DARKEST) + DARKEST
        wanted = self._module(**{PIXELS: sample.to(self._device)}).float()
        halved = half_program(program)
        found = halved(**{PIXELS: sample.to(self._device, torch.float16)}).float()
        distance = float((found - wanted).norm() / wanted.norm())
        if not distance <= HALF_DISTANCE:  # also when it is not a number
            logger.warning(
                "features in float16 differ from those in float32 by %.2g of their norm, more than"
                " %.2g: the vision encoder computes in float32, more slowly",
                distance,
                HALF_DISTANCE,
            )
            # Its weights are float16 now.
            self._module = _loaded(self._model, self._device).module()
            return
        self._module, self._dtype = halved, torch.float16

    @torch.inference_mode()
    def _capture(self, side: int, graphs: int) -> None:
        sizes = [size for size in GRAPHS if size <= graphs]
        shape = (sizes[-1], 3, side, side)
        self._pixels = torch.zeros(shape, dtype=self._dtype, device=self._device)
        capture = capture_on(self._device)
        for size in reversed(sizes):
            self._passes[size] = capture(partial(self._module, pixel_values=self._pixels[:size]))


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


def _loaded(model: Path, device: torch.device) -> Any:
    program = torch.export.load(model)
    return move_to_device_pass(program, device) if is_gpu(device) else program


def half_program(program: Any) -> Any:
    """Return the module of an exported program in float16; the program is not usable afterwards.

    What it says about types becomes float16, too: casts, and checks of what it was exported with.
    """
    for node in program.graph.nodes:
        node.args = tuple(_half(one) for one in node.args)
        node.kwargs = {name: _half(one) for name, one in node.kwargs.items()}
    return program.module().half()


def _half(value: Any) -> Any:
    return torch.float16 if value is torch.float32 else value


def _side(program: Any) -> int:
    """Return the side of the images that a program was exported for."""
    given = next(node for node in program.graph.nodes if node.name == PIXELS)
    return int(given.meta["val"].shape[-1])
