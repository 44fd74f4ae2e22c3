"""What both halves know of a backend: one record for each value of `spec.engine.backend`.

What a backend does is in `mm_operator.plan.engine.backends` and in the runtime; everything else
reads a record, and compares no name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Name = Literal["TensorRT", "PyTorch", "VLLM", "Reference"]


@dataclass(frozen=True, slots=True)
class Traits:
    """Facts of one backend.

    `builds_engines`: by TensorRT-LLM's commands, on the GPU that serves. `stages`: the engine is
    the checkpoint's files, and its server reads images and writes prompts. `runs_checkpoints`: it
    computes what the checkpoint answers, with its vision half exported. `uses_trtllm`: the image
    has TensorRT-LLM, and the plan is for its version. `supervised`: the server's container runs our
    program, which starts the server. `needs_gpu`: pods request a GPU, unless the image is a build
    for CPUs (`has_cpu_builds`).
    """

    name: Name
    builds_engines: bool = False
    stages: bool = False
    runs_checkpoints: bool = False
    uses_trtllm: bool = False
    uses_triton: bool = False
    supervised: bool = True
    needs_gpu: bool = True
    has_cpu_builds: bool = False


TENSORRT: Final = Traits("TensorRT", builds_engines=True, uses_trtllm=True, uses_triton=True)
PYTORCH: Final = Traits("PyTorch", stages=True, uses_trtllm=True)
VLLM: Final = Traits("VLLM", stages=True, supervised=False, has_cpu_builds=True)
REFERENCE: Final = Traits("Reference", runs_checkpoints=True, uses_triton=True, needs_gpu=False)

BACKENDS: Final[Mapping[str, Traits]] = {
    one.name: one for one in (REFERENCE, TENSORRT, PYTORCH, VLLM)
}
DEFAULT: Final = REFERENCE.name
"""What `spec.engine.backend` is where a spec names none."""

EVALUATOR: Final = REFERENCE.name
"""Whose engine computes the checkpoint's own answers, to which those of others are compared."""
