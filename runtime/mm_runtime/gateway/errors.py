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


class NotAuthenticatedError(GatewayError):
    """No bearer token, or a wrong one."""

    status = HTTPStatus.UNAUTHORIZED
    kind = "authentication_error"

    @property
    def headers(self) -> dict[str, str]:
        """Name the scheme, as RFC 9110 requires."""
        return {"www-authenticate": "Bearer"}


class KeyLimitError(OverloadedError):
    """The client's key has used up what it may use of this replica.

    Attributes:
        key: its name.
    """

    def __init__(
        self, message: str, *, key: str, retry_after_seconds: int, reason: str, code: str
    ) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds, reason=reason, code=code)
        self.key = key


class EngineUnavailableError(RetryLaterError):
    """The server does not answer. Raised by engines; the pod is not ready meanwhile."""


class EngineTimeoutError(GatewayError):
    """The answer was not finished within the plan's `request_timeout_seconds`."""

    status = HTTPStatus.GATEWAY_TIMEOUT


class EngineFailedError(GatewayError):
    """The server answered with an error that is not the client's fault."""


def engine_unavailable() -> EngineUnavailableError:
    """Return what any engine raises when its server cannot be reached."""
    return EngineUnavailableError(
        "The model server does not answer now. Try again.",
        retry_after_seconds=1,
        reason="engine_unavailable",
        code="engine_unavailable",
    )


def engine_failed() -> EngineFailedError:
    """Return the error that every engine raises for a failure that no request has caused."""
    return EngineFailedError("The model failed on this request.", code="engine_error")
