"""What a language model is loaded from and for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from mm_runtime.reference_engine.adapters import AdapterFolder
from mm_runtime.reference_engine.fused.kernels import Kernels
from mm_runtime.serving.device import CPU


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint, how it is computed, and how much room its requests get."""

    folder: Path
    """config.json and safetensors in Hugging Face format."""

    family: str
    dtype: str
    """torch's name of the dtype to compute in, for example float32."""

    slots: int
    """Requests that can run at one time."""

    max_length: int
    """Positions of one request: of a decoder prompt and answer together, otherwise what an encoder
    reads, or what cross attention reads of all images."""

    adapters: Sequence[AdapterFolder] = ()
    device: torch.device = CPU
    reuse_bytes: int = 0
    """Memory of the device for keys and values of earlier requests; 0: none are kept."""

    kernels: Kernels | None = None
    """Compute decoders of Llama's shape without adapters, in passes of fixed shapes."""
