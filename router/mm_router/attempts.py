"""Which replica answers a request in the end: another one only while it cannot have begun."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from mm_edge.errors import RetryLaterError
from mm_router.affinity import Affinity
from mm_router.catalog import Model
from mm_router.ejection import Failure
from mm_router.fleet import Fleet, Visit
from mm_router.metrics import RouterMetrics
from mm_router.relay import Received, receive_answer
from mm_router.retry import MOST_ATTEMPTS, Why, is_draining
from mm_router.upstream import BrokenError, UnreachableError, Upstream

_SERVER_ERRORS = frozenset(
    {
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
"""504 is not among them: the request took longer than its model allows."""

_LOADING_SECONDS = 5
"""Until the next attempt where a model has no ready replica: one that loads takes longer."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it is sent to a replica; `target` is path and query."""

    model: Model
    affinity: Affinity | None
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def label(self) -> str:
        """The model's name in metrics."""
        return "/".join(self.model.key)


class Attempts:
    """Sends requests to replicas of a fleet."""

    def __init__(self, fleet: Fleet, upstream: Upstream, metrics: RouterMetrics) -> None:
        self._fleet = fleet
        self._upstream = upstream
        self._metrics = metrics

    async def reach(self, request: Outgoing) -> tuple[Visit, Received]:
        """Return an answer whose first bytes have come, and the visit that it is of, to be ended.

        Raises:
            RetryLaterError: no replica could be reached, or the one that was is lost.
        """
        tried: set[str] = set()
        while len(tried) < MOST_ATTEMPTS:
            visit = self._fleet.choose(request.model.key, request.affinity, tried=tried)
            if visit is None:
                break
            tried.add(visit.replica)
            if (received := await self._attempt(visit, request)) is not None:
                return visit, received
        if not tried:
            raise RetryLaterError(
                f"The model {request.label!r} has no ready replica now. Try again later.",
                retry_after_seconds=_LOADING_SECONDS,
                reason="no_replica",
                code="model_not_ready",
            )
        raise RetryLaterError(
            f"No replica of the model {request.label!r} takes requests now. Try again.",
            retry_after_seconds=1,
            reason="no_replica",
            code="no_replica",
        )

    async def _attempt(self, visit: Visit, request: Outgoing) -> Received | None:
        """Return the answer of one replica; None: another one may be tried, this visit is over."""
        retried: Why
        try:
            received = await self._send(visit, request)
            if not is_draining(received.status, received.headers, received.content or b""):
                return received
            received.close()
            retried = Why.DRAINING
        except UnreachableError:
            visit.failed(Failure.UNREACHABLE)
            retried = Why.UNREACHABLE
        except BrokenError:
            visit.failed(Failure.BROKEN)
            visit.end()
            raise replica_lost() from None
        except BaseException:
            visit.end()
            raise
        visit.end()
        self._metrics.count("mm_router_retries_total", request.label, retried)
        return None

    async def _send(self, visit: Visit, request: Outgoing) -> Received:
        answer = await self._upstream.send(
            visit.replica, request.target, request.headers, request.body
        )
        try:
            received = await receive_answer(answer)
        except BaseException:
            answer.close()
            raise
        if received.status not in _SERVER_ERRORS:
            visit.answered()
        elif not is_draining(received.status, received.headers, received.content or b""):
            visit.failed(Failure.ERRORS)
        return received


def replica_lost() -> RetryLaterError:
    """Return the error of a request that may have run, and whose answer will not come."""
    return RetryLaterError(
        "The replica ended while it answered. The request may have run; it was not sent again.",
        retry_after_seconds=1,
        reason="replica_lost",
        code="replica_lost",
    )
