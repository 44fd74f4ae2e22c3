"""What only one backend does in images: a folder each, behind one Protocol.

Belongs here: which steps a build has, how the server is started, how the gateway queries it;
`triton_server`, `openai_server` and `trtllm` hold what several have in common. Must not: hold what
builds, gateways and supervisors do whatever the backend. May import: all of `mm_runtime` but `cli`,
which alone imports this package, and hands down what a command needs.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from mm_api.backends import PYTORCH, REFERENCE, TENSORRT, VLLM
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import EngineManifest
from mm_runtime.backends.pytorch import PyTorch
from mm_runtime.backends.reference import Reference
from mm_runtime.backends.tensorrt import TensorRT
from mm_runtime.backends.vllm import Vllm
from mm_runtime.engine_build.step import Step
from mm_runtime.gateway.backends.backend import GatewayBackend
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.server import Server


class Backend(GatewayBackend, Protocol):
    """One backend: its build, its server, and the gateway's part of it."""

    def steps(self, plan: BuildPlan, /) -> Iterator[Step]:
        """Yield the steps of a build, in order.

        Raises:
            PermanentError: a plan whose parts do not fit together.
        """
        ...

    def prepare_server(self, options: ServeOptions, engine: EngineManifest, /) -> Server:
        """Write what the server reads; return how it is run.

        Raises:
            PermanentError: this image cannot serve the engine.
        """
        ...


BACKENDS: Final[Mapping[str, Backend]] = {
    TENSORRT.name: TensorRT(),
    PYTORCH.name: PyTorch(),
    REFERENCE.name: Reference(),
    VLLM.name: Vllm(),
}


def steps(plan: BuildPlan) -> tuple[Step, ...]:
    return tuple(BACKENDS[plan.engine.backend].steps(plan))
