"""What the processes of a server said of their GPU, as the end of the container."""

from pathlib import Path

from mm_runtime.base.faults import VARIABLE, Fault, FaultKind
from mm_runtime.errors import GpuMemoryError, GpuUnusableError, ServerFailedError

NAME = "gpu-fault.json"


class ServerFaults:
    """The file of one server at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    @property
    def environment(self) -> dict[str, str]:
        return {VARIABLE: str(self._path)}

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)

    @property
    def found(self) -> Fault | None:
        return Fault.read(self._path)

    def explained(self, error: ServerFailedError) -> ServerFailedError:
        """Return the error of a server that did not start, with the fault first if there is one."""
        fault = self.found
        if fault is None:
            return error
        kind = GpuMemoryError if fault.kind is FaultKind.OUT_OF_MEMORY else GpuUnusableError
        return kind(f"{fault.message}.\n{error}")
