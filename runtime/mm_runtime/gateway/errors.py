"""What can go wrong with the engine behind the gateway; `mm_edge.errors` has everything else.

The dataplane raises these without knowing HTTP; `mm_edge.errors` has the map to it.
"""

from http import HTTPStatus

from mm_edge.errors import GatewayError, RetryLaterError


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
