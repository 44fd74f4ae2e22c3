"""What only one backend does in images: a folder each, behind one record of functions.

Must not: hold what builds, gateways and supervisors do whatever the backend. May import: all of
`mm_runtime` but `cli`, which alone imports this package, and hands down what a command needs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mm_api.backends import PYTORCH, REFERENCE, TENSORRT
from mm_api.documents.build_plan import BuildPlan
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.backends.pytorch.server import prepare_trtllm_serve
from mm_runtime.backends.pytorch.steps import staging_steps
from mm_runtime.backends.reference.steps import reference_steps
from mm_runtime.backends.tensorrt.steps import trtllm_steps
from mm_runtime.engine_build.step import Step
from mm_runtime.launch.options import ServeOptions
from mm_runtime.launch.server import Server
from mm_runtime.launch.tritonserver import prepare_triton
from mm_runtime.serving.directory import EngineDirectory

if TYPE_CHECKING:  # 0.2 s of a start for each client, which supervisors and builds do not need
    from mm_runtime.gateway.backends.engine import ServedEngine, Servers


@dataclass(frozen=True, slots=True)
class Backend:
    """One backend: the steps of its builds, and what prepares its server."""

    steps: Callable[[BuildPlan], Iterator[Step]]
    prepare_server: Callable[[ServeOptions, EngineManifest], Server]


BACKENDS: Final[Mapping[str, Backend]] = {
    TENSORRT.name: Backend(trtllm_steps, prepare_triton),
    PYTORCH.name: Backend(staging_steps, prepare_trtllm_serve),
    REFERENCE.name: Backend(reference_steps, prepare_triton),
}


def steps(plan: BuildPlan) -> tuple[Step, ...]:
    """Return the steps of a plan, in order; a PermanentError: its parts do not fit together."""
    return tuple(BACKENDS[plan.engine.backend].steps(plan))


def open_engine(
    directory: EngineDirectory, serving: ServingPlan, servers: "Servers"
) -> "ServedEngine":
    """Return the gateway's client of a server; no request is sent yet."""
    if serving.trtllm_serve is None:
        from mm_runtime.gateway.backends.opening import open_triton  # noqa: PLC0415

        return open_triton(directory, serving, servers.triton)
    from mm_runtime.backends.pytorch.client import open_trtllm_serve  # noqa: PLC0415

    return open_trtllm_serve(directory, serving, servers.openai)
