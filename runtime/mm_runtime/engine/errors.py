"""Errors of one request, and whose fault they are.

Raised anywhere in `mm_runtime.engine`; caught in the Triton models, which answer the client with
the matching code and keep serving.
"""


class RequestError(Exception):
    """The request cannot be served as it is: the client has to change it (INVALID_ARG)."""


class QueueFullError(Exception):
    """The engine's queue is full: the client may try again later (UNAVAILABLE)."""


class EngineStoppedError(Exception):
    """The engine is shutting down and takes no more requests (UNAVAILABLE)."""
