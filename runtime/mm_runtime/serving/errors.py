"""Errors of one request, and whose fault they are.

Raised anywhere in `mm_runtime.serving`; caught in the Triton models, which answer the client with
the matching code and keep serving.

Messages begin with the name of their code as well. Triton gives the code itself only to callers
that get one response: a stream carries nothing but text, a model that calls another one (BLS) sees
INTERNAL, and the header that would end a stream with its status (`triton_grpc_error`) corrupts the
heap of Triton 2.51.
"""

INVALID_ARGUMENT, UNAVAILABLE = "INVALID_ARGUMENT: ", "UNAVAILABLE: "
"""What messages of our models begin with, in gRPC's names; messages of INTERNAL say no code."""

QUEUE_FULL = "Exceeds maximum queue size"
"""Part of what Triton says for a request that finds a model's queue full."""


class RequestError(Exception):
    """The request cannot be served as it is: the client has to change it (INVALID_ARGUMENT)."""


class QueueFullError(Exception):
    """The engine's queue is full: the client may try again later (UNAVAILABLE)."""


class PoolFullError(Exception):
    """A memory pool of the server is full: the client may try again (UNAVAILABLE)."""


class MemoryFullError(Exception):
    """The GPU had no memory left for this request (UNAVAILABLE)."""


class GpuLostError(Exception):
    """The GPU computes nothing more for this process, which ends (UNAVAILABLE)."""


class NotFiniteError(Exception):
    """The model computed NaN or infinity for this request: there is no answer to it (INTERNAL)."""


class EngineStoppedError(Exception):
    """The engine is shutting down and takes no more requests (UNAVAILABLE)."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a GPU had no memory left; torch, which raises that, is not imported here."""
    if type(error).__name__ == "OutOfMemoryError":
        return True
    # Of a library's workspace; of a process's context, for which torch has no error of its own.
    said = str(error)
    return "CUBLAS_STATUS_ALLOC_FAILED" in said or "CUDA error: out of memory" in said


def for_client(error: Exception) -> Exception:
    if not is_out_of_memory(error):
        return error
    return MemoryFullError(
        "the GPU has no memory left for this request: send it again, and if it fails often lower "
        "spec.engine.maxBatchSize or spec.engine.maxSeqLen"
    )
