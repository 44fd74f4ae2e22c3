"""What can go wrong with a request at the edge, and the one map from that to HTTP.

What reads and routes requests raises these without knowing HTTP; `error_response` turns each into a
status, headers and OpenAI's error object. Anything else that escapes is a defect of ours and
becomes a 500.
"""

from dataclasses import dataclass
from http import HTTPStatus


class GatewayError(Exception):
    """A request that is not answered. The message is for the client: what is wrong, what to do.

    Attributes:
        param: path of the offending part, for example `messages[0].content[2]`, or None.
        code: OpenAI's machine-readable code, or None.
    """

    status = HTTPStatus.INTERNAL_SERVER_ERROR
    kind = "server_error"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code

    @property
    def headers(self) -> dict[str, str]:
        return {}


class InvalidRequestError(GatewayError):
    """The client must change the request. Raised wherever input is checked."""

    status = HTTPStatus.BAD_REQUEST
    kind = "invalid_request_error"


class BodyTooLargeError(InvalidRequestError):
    """The body exceeds the limit; it was not kept."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class BodyEncodedError(InvalidRequestError):
    """The body is compressed."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class BodyTimeoutError(InvalidRequestError):
    """The client took too long to send the body."""

    status = HTTPStatus.REQUEST_TIMEOUT

    @property
    def headers(self) -> dict[str, str]:
        """Close the connection: the rest of the body may still come."""
        return {"connection": "close"}


class NotAuthenticatedError(GatewayError):
    """No bearer token, or a wrong one."""

    status = HTTPStatus.UNAUTHORIZED
    kind = "authentication_error"

    @property
    def headers(self) -> dict[str, str]:
        """Name the scheme, as RFC 9110 requires."""
        return {"www-authenticate": "Bearer"}


class UnknownModelError(InvalidRequestError):
    """The request names a model that this gateway does not serve."""

    status = HTTPStatus.NOT_FOUND


class RetryLaterError(GatewayError):
    """The request was fine, the moment was not; `reason` labels `mm_requests_rejected_total`."""

    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self, message: str, *, retry_after_seconds: int, reason: str, code: str) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds
        self.reason = reason

    @property
    def headers(self) -> dict[str, str]:
        return {"retry-after": str(self.retry_after_seconds)}


class OverloadedError(RetryLaterError):
    """All slots and all places in the queue are taken."""

    status = HTTPStatus.TOO_MANY_REQUESTS
    kind = "rate_limit_error"


class KeyLimitError(OverloadedError):
    """The client's key has used up what it may use here."""

    def __init__(
        self, message: str, *, key: str, retry_after_seconds: int, reason: str, code: str
    ) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds, reason=reason, code=code)
        self.key = key


class DrainingError(RetryLaterError):
    """The pod is going away; the connection is closed, so the next attempt finds another pod."""

    @property
    def headers(self) -> dict[str, str]:
        return {**super().headers, "connection": "close"}


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """One failed request as HTTP: status, headers and OpenAI's error object."""

    status: int
    headers: dict[str, str]
    body: dict[str, object]


def error_response(error: Exception) -> ErrorResponse:
    """Map an exception to HTTP. Messages of unexpected exceptions stay inside."""
    if not isinstance(error, GatewayError):
        error = GatewayError("The gateway failed on this request; its log has the cause.")
    body: dict[str, object] = {
        "error": {
            "message": error.message,
            "type": error.kind,
            "param": error.param,
            "code": error.code,
        }
    }
    return ErrorResponse(status=int(error.status), headers=error.headers, body=body)
