"""What only one backend does in images: a folder each, behind one Protocol.

Belongs here: which steps a build has, how the server is started, how the gateway queries it;
`triton_server`, `openai_server` and `trtllm` hold what several have in common. Must not: hold what
builds, gateways and supervisors do whatever the backend. May import: all of `mm_runtime` but `cli`,
which alone imports this package, and hands down what a command needs.
"""

from collections.abc import Mapping
from typing import Final

from mm_api.backends import PYTORCH, REFERENCE, TENSORRT, VLLM
from mm_api.documents.build_plan import BuildPlan
from mm_runtime.backends.backend import Backend
from mm_runtime.backends.pytorch import PyTorch
from mm_runtime.backends.reference import Reference
from mm_runtime.backends.tensorrt import TensorRT
from mm_runtime.backends.vllm import Vllm
from mm_runtime.engine_build.step import Step

BACKENDS: Final[Mapping[str, Backend]] = {
    TENSORRT.name: TensorRT(),
    PYTORCH.name: PyTorch(),
    REFERENCE.name: Reference(),
    VLLM.name: Vllm(),
}


def steps(plan: BuildPlan) -> tuple[Step, ...]:
    return tuple(BACKENDS[plan.engine.backend].steps(plan))
