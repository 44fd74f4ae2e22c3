"""What the command line of `mm-runtime serve` says."""

from dataclasses import dataclass
from pathlib import Path

from mm_api.contract import GATEWAY_PORT
from mm_api.documents.server_state import Role
from mm_api.documents.serving_plan import GpuSharing, MemoryPools, ServingPlan
from mm_runtime.errors import PermanentError
from mm_runtime.settings import STARTUP_SECONDS, Ports


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """One server's documents, folders and ports."""

    manifest: Path
    serving_path: Path
    serving: ServingPlan
    repository: Path
    """Triton's model repository. The folder around it is the server's own, whichever it is."""

    ports: Ports
    startup_seconds: float = STARTUP_SECONDS
    gateway_port: int = GATEWAY_PORT
    """Port of the gateway in the same pod, which is the last to close; 0 when there is none."""

    role: Role = Role.SERVER

    @property
    def pools(self) -> MemoryPools:
        """What the plan gives to a pod of this role; PermanentError: a plan without encoders."""
        if self.role is Role.SERVER:
            return self.serving.pools
        if self.serving.encoders is None:
            raise PermanentError(
                f"{self.serving_path} has no encoders in pods of their own; expected a plan of a"
                " model with spec.vision.placement Disaggregated."
            )
        return self.serving.encoders.pools

    @property
    def sharing(self) -> GpuSharing | None:
        """How processes share a GPU; an encoder's pod has one process that uses it."""
        return self.serving.sharing if self.role is Role.SERVER else None

    @property
    def folder(self) -> Path:
        return self.repository.absolute().parent
