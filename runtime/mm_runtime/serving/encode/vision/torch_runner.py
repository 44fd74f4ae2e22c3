"""A vision half as torch exported it, run by torch itself on the processor or on a GPU."""

import logging
from pathlib import Path
from typing import Any, Unpack

import torch
from torch.export.passes import move_to_device_pass

from mm_runtime.serving.device import CPU
from mm_runtime.serving.encode.vision.device_runner import DeviceRunner
from mm_runtime.serving.encode.vision.pixel_bytes import PIXELS
from mm_runtime.serving.encode.vision.runner import RunnerOptions

logger = logging.getLogger(__name__)

HALF_DISTANCE = 1e-2
"""Relative distance of features in float16 from those in float32 at the most: 0.0017 with CLIP
ViT-L/14-336 and random weights. A tower whose activations leave float16's range is far above."""

DARKEST, BRIGHTEST = -2.0, 2.7
"""Range of normalised pixels."""


class TorchRunner(DeviceRunner):
    """An exported program on a device."""

    def __init__(
        self,
        model: Path,
        *,
        threads: int = 1,
        device: torch.device = CPU,
        **options: Unpack[RunnerOptions],
    ) -> None:
        """Load the program that the build exported, for the processor, in float32.

        `threads`: processor threads of one run. `options`: half and graphs are of a GPU.
        """
        super().__init__(device, **options)
        torch.set_num_threads(threads)
        self._model = model
        program = _loaded(model, device)
        self._module = program.module()
        if options.get("half"):
            self._halve(program)
        if graphs := options.get("graphs"):
            self._capture(_side(program), graphs)

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
        # The weights in float32 are gone, but torch keeps their memory from other processes: above
        # what is planned, 0.4 GiB of a ViT-L and 3 GiB of a ViT-bigG (H200).
        torch.cuda.empty_cache()


def _loaded(model: Path, device: torch.device) -> Any:
    program = torch.export.load(model)
    return move_to_device_pass(program, device) if device != CPU else program


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
    given = next(node for node in program.graph.nodes if node.name == PIXELS)
    return int(given.meta["val"].shape[-1])
