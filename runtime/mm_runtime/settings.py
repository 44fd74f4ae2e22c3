"""Defaults of the runtime's commands: where things lie in a pod, ports, deadlines."""

import os
from dataclasses import dataclass
from pathlib import Path

from mm_api.contract import GRPC_PORT, HTTP_PORT, METRICS_PORT

STARTUP_SECONDS = 900.0
"""Until tritonserver is ready. Loading 14 GB of weights from a network disk takes minutes; without
a deadline a server that misses a library neither listens nor exits (seen for more than 60 s)."""

QUIET_SECONDS = 1.0
"""How long nothing may be in flight before a drain ends: the gateway may hold a request that it has
admitted and not yet sent. Longer than a pass of its event loop under load, short for a rollout."""

DRAIN_MARGIN_SECONDS = 5.0
"""Added to the gateway's own request time-out: after that no admitted request can be running."""

EXIT_SECONDS = 10.0
"""tritonserver's exit after SIGTERM took 4 to 5.6 s idle; then it is killed."""

STUB_SECONDS = 300
"""Start of a Python model, imports included. Triton's own default of 30 s is too short for torch on
a busy machine (6 s on a quiet one)."""

ROOT_VARIABLE = "MM_TRTLLM_ROOT"
"""Environment variable: the folder that holds TensorRT-LLM's `examples`."""

TRTLLM_ROOTS = (Path("/app/tensorrt_llm"), Path("/app"))
"""Folders that hold TensorRT-LLM's `examples`: in the release images and in those of Triton."""


def trtllm_root() -> Path:
    """Return the folder of `ROOT_VARIABLE`, else the first with `examples`; none has: the first."""
    if given := os.environ.get(ROOT_VARIABLE):
        return Path(given)
    return next((one for one in TRTLLM_ROOTS if (one / "examples").is_dir()), TRTLLM_ROOTS[0])


STEP_SECONDS = 6 * 3600.0
"""Deadline of one build step. The Job's own deadline is shorter as a rule; this one ends a step
that hangs in a build started by hand."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of one server on one address."""

    address: str = "127.0.0.1"
    """Address the server listens on. Loopback by default: only a pod that publishes Triton wants
    0.0.0.0."""

    http: int = HTTP_PORT
    grpc: int = GRPC_PORT
    metrics: int = METRICS_PORT
    grpc_address: str = ""
    """For gRPC alone; empty: `address`."""

    page_address: str = ""
    """For metrics, state and health, which come from the supervisor; empty: `address`."""

    @property
    def probe_host(self) -> str:
        """Where this process reaches its own server: loopback when it listens everywhere."""
        everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (compared, not bound)
        return everywhere.get(self.address, self.address)
