"""Which replica answers a request in the end: another one only while it cannot have begun.

No connection was made, or a replica that drains refused it. A connection that ended later may have
carried the request; nothing is sent twice after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import orjson

from mm_edge.errors import RetryLaterError
from mm_edge.tracing import event
from mm_router.catalog import Model
from mm_router.demand import Work
from mm_router.ejection import Failure
from mm_router.fleet import Fleet, Visit
from mm_router.hold import Comment, Holds
from mm_router.metrics import RouterMetrics
from mm_router.relay import Received, receive_answer
from mm_router.upstream import BrokenError, UnreachableError, Upstream

_SERVER_ERRORS = frozenset(
    {
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
"""504 is not among them: the request took longer than its model allows."""

_MOST_ATTEMPTS = 3
"""Replicas of one request; each that cannot be reached costs a time-out of its own at most."""

_BUSY_SECONDS = 1.0
"""Less than this is left of a held request's time: a replica's refusal is its answer."""


class RetryReason(StrEnum):
    """Why a request goes to another replica; the label of a metric."""

    UNREACHABLE = "unreachable"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it is sent to a replica; `target`: path and query."""

    model: Model
    affinity: bytes | None
    work: Work
    target: str
    headers: Mapping[str, str]
    body: bytes
    streams: bool = False
    with_images: bool = False

    @property
    def label(self) -> str:
        return "/".join(self.model.key)


@dataclass(frozen=True, slots=True)
class Attempts:
    """Sends requests to replicas of a fleet."""

    fleet: Fleet
    holds: Holds
    upstream: Upstream
    metrics: RouterMetrics

    async def reach(
        self, request: Outgoing, comment: Comment | None = None
    ) -> tuple[Visit, Received]:
        """Return an answer whose first bytes have come, and the visit that it is of, to be ended.

        A request that no replica has taken is held while one may come; `comment` is called now and
        then meanwhile.

        Raises:
            RetryLaterError: no replica could be reached, or the one that was is lost.
            ClientGoneError: the client has stopped reading comments.
        """
        with self.holds.place(request.model, len(request.body)) as place:
            while True:
                reached = await self._reach(request)
                if reached is not None:
                    visit, received = reached
                    refused = received.status == HTTPStatus.TOO_MANY_REQUESTS
                    if not (refused and place.line and place.seconds_left > _BUSY_SECONDS):
                        return visit, received
                    # More were held than the first replica has places for: the rest waits on.
                    received.close()
                    visit.end()
                event("held")
                await place.wait(comment, refused=bool(self.fleet.replicas(request.model.key)))

    async def _reach(self, request: Outgoing) -> tuple[Visit, Received] | None:
        """Return the answer of a replica; None: none takes requests, and none has seen this one."""
        tried: set[str] = set()
        outcomes: set[RetryReason] = set()
        retried: RetryReason | None = None
        ways = self.fleet.ways(request.model, request.affinity)
        while len(tried) < _MOST_ATTEMPTS:
            visits = (
                self.fleet.choose(way, request.affinity, request.work, tried=tried) for way in ways
            )
            visit = next((one for one in visits if one is not None), None)
            if visit is None:
                break
            if retried is not None:
                self.metrics.count("mm_router_retries_total", request.label, retried)
            tried.add(visit.replica)
            outcome = await self._attempt(visit, request)
            if isinstance(outcome, Received):
                return visit, outcome
            retried = outcome
            outcomes.add(outcome)
        if not tried or (request.model.may_start and outcomes == {RetryReason.DRAINING}):
            return None
        raise RetryLaterError(
            f"No replica of the model {request.label!r} takes requests now. Try again.",
            retry_after_seconds=1,
            reason="no_replica",
            code="no_replica",
        )

    async def _attempt(self, visit: Visit, request: Outgoing) -> Received | RetryReason:
        """Return the answer of one replica, or why another one may be tried: the visit is over."""
        event("sent", **{"server.address": visit.replica})
        try:
            received = await self.send(visit.replica, request)
        except UnreachableError:
            visit.failed(Failure.UNREACHABLE)
            visit.end()
            return RetryReason.UNREACHABLE
        except BrokenError:
            visit.failed(Failure.BROKEN)
            visit.end()
            raise replica_lost() from None
        except BaseException:
            visit.end()
            raise
        if is_draining(received.status, received.headers, received.content or b""):
            received.close()
            visit.end()
            return RetryReason.DRAINING
        if received.status in _SERVER_ERRORS:
            visit.failed(Failure.ERRORS)
        else:
            visit.answered()
        if received.has_begun:
            visit.prompt_done()
        return received

    async def send(self, replica: str, request: Outgoing) -> Received:
        """Send a request once; return its answer, to be closed.

        Raises:
            UnreachableError, BrokenError: there is none.
        """
        answer = await self.upstream.send(replica, request.target, request.headers, request.body)
        try:
            return await receive_answer(answer)
        except BaseException:
            answer.close()
            raise


def replica_lost() -> RetryLaterError:
    """Return the error of a request that may have run, and whose answer will not come."""
    return RetryLaterError(
        "The replica ended while it answered. The request may have run; it was not sent again.",
        retry_after_seconds=1,
        reason="replica_lost",
        code="replica_lost",
    )


def is_draining(status: int, headers: Mapping[str, str], content: bytes) -> bool:
    """Return whether an answer is the refusal of a replica that drains.

    A 503 alone says too little: the engine behind may have failed while the request ran.
    """
    if status != HTTPStatus.SERVICE_UNAVAILABLE or "retry-after" not in headers:
        return False
    try:
        body: Any = orjson.loads(content)
        return bool(body["error"]["code"] == "draining")
    except (ValueError, TypeError, KeyError):
        return False
