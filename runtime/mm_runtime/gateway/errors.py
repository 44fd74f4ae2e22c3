"""What can go wrong with a request behind the edge; all of it, for the modules of the gateway.

The dataplane raises these without knowing HTTP; `mm_edge.errors` has the map to it.
"""

from http import HTTPStatus

from mm_edge.errors import (
    BodyTimeoutError,
    BodyTooLargeError,
    DrainingError,
    ErrorResponse,
    GatewayError,
    InvalidRequestError,
    KeyLimitError,
    NotAuthenticatedError,
    OverloadedError,
    RetryLaterError,
    UnknownModelError,
    error_response,
)

__all__ = [
    "BodyTimeoutError",
    "BodyTooLargeError",
    "DrainingError",
    "EngineFailedError",
    "EngineTimeoutError",
    "EngineUnavailableError",
    "ErrorResponse",
    "GatewayError",
    "InvalidRequestError",
    "KeyLimitError",
    "NotAuthenticatedError",
    "OverloadedError",
    "RetryLaterError",
    "UnknownModelError",
    "engine_failed",
    "engine_unavailable",
    "error_response",
]


class EngineUnavailableError(RetryLaterError):
    """The server does not answer. Raised by engines; the pod is not ready meanwhile."""


class EngineTimeoutError(GatewayError):
    """The answer was not finished within the plan's `request_timeout_seconds`."""

    status = HTTPStatus.GATEWAY_TIMEOUT


class EngineFailedError(GatewayError):
    """The server answered with an error that is not the client's fault."""


def engine_unavailable() -> EngineUnavailableError:
    return EngineUnavailableError(
        "The model server does not answer now. Try again.",
        retry_after_seconds=1,
        reason="engine_unavailable",
        code="engine_unavailable",
    )


def engine_failed() -> EngineFailedError:
    """Return the error that every engine raises for a failure that no request has caused."""
    return EngineFailedError("The model failed on this request.", code="engine_error")
