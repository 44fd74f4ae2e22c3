"""Vision halves for torch itself: the same function in fewer kernels."""

from typing import Any

import torch
import transformers
from transformers.activations import QuickGELUActivation

from mm_runtime.engine_build.commands.towers.attention import Attention

SLOPE = 1.702
"""Factor of `QuickGELUActivation`: x * sigmoid(1.702 x)."""


@torch.no_grad()
def fuse(module: torch.nn.Module) -> None:
    """Change a vision half in place: attention as one operation, CLIP's activation as one kernel.

    x * sigmoid(1.702 x) is silu(1.702 x) / 1.702, and both factors go into the weights around it:
    of three kernels one is left, which makes 7 percent of an image's time on an H200.
    """
    for part in module.modules():
        if isinstance(part, transformers.PreTrainedModel):
            part.set_attn_implementation("sdpa")
        if isinstance(part, Attention):
            part.is_one_operation = True
        block: Any = part
        if isinstance(getattr(part, "activation_fn", None), QuickGELUActivation):
            for inner in (block.fc1.weight, block.fc1.bias):
                inner.mul_(SLOPE)
            block.fc2.weight.div_(SLOPE)
            block.activation_fn = torch.nn.SiLU()
