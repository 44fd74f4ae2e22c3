"""Which kernels a device has."""

import logging

import torch

from mm_runtime.base.faults import NO_KERNELS
from mm_runtime.reference_engine.fused.kernels import Kernels, Linear
from mm_runtime.serving.device import is_gpu

logger = logging.getLogger(__name__)

LEAST = 16
"""Inputs of a product of tiles."""


def open_kernels(device: torch.device) -> Kernels | None:
    """Return the kernels of a device; None: it has none, and transformers' modules compute.

    A GPU has none where triton, or the C compiler that it needs, is missing.
    """
    if not is_gpu(device):
        return None
    try:
        from mm_runtime.reference_engine.fused.triton_kernels import (  # noqa: PLC0415 (see above)
            TritonKernels,
        )

        kernels = TritonKernels(device)
        _try(kernels, device)
    except Exception as error:  # noqa: BLE001 (compilers fail in many ways, and none is needed)
        reason = " ".join(f"{type(error).__name__}: {error}".split())  # one line for the supervisor
        logger.warning("%s: %s", NO_KERNELS, reason)
        return None
    return kernels


def _try(kernels: Kernels, device: torch.device) -> None:
    """Compute something small; raises what a compiler raises, ValueError for another result."""
    one = torch.ones((1, LEAST), dtype=torch.float16, device=device)
    halves = Linear(torch.zeros((2, LEAST), dtype=one.dtype, device=device), None)
    halves.weight[1] = 2.0
    out = one.new_ones((1, 1))
    kernels.multiply_gated(one, halves, one.new_empty((1, 2)), out)
    if float(out) != 0.0:
        raise ValueError(f"silu(0) x {2 * LEAST} gave {float(out)}")
