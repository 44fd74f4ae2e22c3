"""The runtime's errors, and the exit codes that Jobs and pods see.

Each class says who raises it and what happens next. `cli.main` is the only place that turns one
into an exit code; the steps of a build do the same for their own process.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mm_api.contract import ExitCode

if TYPE_CHECKING:
    from mm_api.documents.model_facts import InspectReason


class RuntimeCommandError(Exception):
    """Base of the errors below: a message for a person and the exit code it leads to."""

    exit_code: ExitCode = ExitCode.RETRY


class PermanentError(RuntimeCommandError):
    """The same input fails again: raised for corrupt engines and mismatched documents."""

    exit_code = ExitCode.PERMANENT


@dataclass
class InspectRefusedError(PermanentError):
    """A checkpoint that cannot be served: raised by inspect, sent as `InspectError`."""

    reason: "InspectReason"
    message: str

    def __str__(self) -> str:
        return self.message


class PlanChangedError(RuntimeCommandError):
    """A plan is not the one its Job was made for. The next Job comes with the operator's own."""


class InspectInterruptedError(InspectRefusedError):
    """A checkpoint whose server does not answer now: reported like a refusal, and tried again."""

    exit_code = ExitCode.RETRY


class SourceNotFoundError(PermanentError):
    """The checkpoint, or a file of it, is gone. Raised by the fetch step and remote sources."""


class SourceEscapesError(PermanentError):
    """A link of a checkpoint leads out of its claim. Raised by `mm_runtime.base.containment`."""


class SourceDeniedError(PermanentError):
    """The server of a remote checkpoint refuses the credentials. Raised by `mm_runtime.sources`."""


class SourceUntrustedError(PermanentError):
    """The certificate of a checkpoint's server is not trusted. Raised by `mm_runtime.sources`."""


class SourceUnavailableError(RuntimeCommandError):
    """The server of a remote checkpoint is down, slow or busy. Raised by `mm_runtime.sources`."""


class SourceChangedError(RuntimeCommandError):
    """Digest of the checkpoint differs from the plan's. Raised by the fetch step."""

    exit_code = ExitCode.SOURCE_CHANGED


class StoreNotWritableError(RuntimeCommandError):
    """The store refused a write: full, read-only or not ours. Raised by the build."""

    exit_code = ExitCode.STORE_NOT_WRITABLE


class StoreUnreachableError(RuntimeCommandError):
    """The bucket of a store does not exist, refuses the keys or does not answer.

    Raised by `mm_runtime.store`. Another try helps once what the message names is repaired.
    """

    exit_code = ExitCode.STORE_NOT_WRITABLE


class EngineBusyError(RuntimeCommandError):
    """An engine is being built or replaced by another process. Raised by `mm_runtime.store`."""


class VerificationFailedError(PermanentError):
    """A built file does not compute what the checkpoint computes. Raised by the verify step."""


class WeightsUnusableError(PermanentError):
    """Weights of a checkpoint are missing, left over, of another shape or not finite.

    Raised by whatever loads weights. The same files fail again.
    """

    exit_code = ExitCode.WEIGHTS_UNUSABLE


class EngineCorruptError(RuntimeCommandError):
    """A file of an engine is missing or has other bytes than its manifest says.

    Raised by `mm_runtime.base.manifest.verify`. Serving refuses to start; a build starts again.
    """

    exit_code = ExitCode.ENGINE_CORRUPT


class ServerFailedError(RuntimeCommandError):
    """A server did not become ready in time, or ended unexpectedly. The container restarts."""


class GpuMemoryError(ServerFailedError):
    """A server found too little GPU memory free for its models. Raised by `mm_runtime.launch`."""

    exit_code = ExitCode.GPU_OUT_OF_MEMORY


class GpuUnusableError(ServerFailedError):
    """A server finds no GPU that it can use. Raised by `mm_runtime.launch`."""

    exit_code = ExitCode.GPU_UNUSABLE


class ServerKilledError(ServerFailedError):
    """A signal ended a server before it was ready; `code`: 128 and the signal's number."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
