"""Who may send requests, and how many: one limit for all routers.

Each key has one router that counts it, its owner. The others claim a place there for each request
and hold it by an open connection; so a router that dies gives its places back. Tokens are reserved
and settled within that claim; of a router that dies all that it reserved counts as used.
"""

import logging
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter

from mm_api.documents.serving_plan import KeyLimitPlan
from mm_edge.auth import BearerAuth
from mm_edge.errors import KeyLimitError
from mm_edge.key_limits import KeyClaim, KeyLimits
from mm_router.key_use import KeyUse
from mm_router.metrics import RouterMetrics
from mm_router.peers import Peers
from mm_router.remote_claims import OwnerLostError, RemoteClaims

_LOG = logging.getLogger(__name__)

_LIMITS = TypeAdapter(tuple[KeyLimitPlan, ...])


class CountedBy(StrEnum):
    """Who counted a request; the label of a metric."""

    SELF = "self"
    """This router owns the key."""
    OWNER = "owner"
    """The router that does."""
    ALONE = "alone"
    """That one did not answer: this router counted by its share of the limit."""


def read_limits(text: bytes) -> tuple[KeyLimitPlan, ...]:
    """Read what the chart has written: a JSON list of limits by name.

    Raises:
        ValueError: it is something else.
    """
    return _LIMITS.validate_json(text)


def share_of(limit: KeyLimitPlan, routers: int) -> KeyLimitPlan:
    """Return what one of several routers lets in by itself, rounded up."""
    return limit.model_copy(
        update={
            "requests_per_minute": _share(limit.requests_per_minute, routers),
            "concurrent_requests": _share(limit.concurrent_requests, routers),
            "tokens_per_minute": _share(limit.tokens_per_minute, routers),
        }
    )


class KeyAdmission:
    """Lets requests in by the tokens that they carry.

    Args:
        tokens: file with the tokens of clients and their names, read for every request.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        tokens: Path,
        peers: Peers,
        remote: RemoteClaims,
        metrics: RouterMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._auth = BearerAuth(tokens, (self._keep, metrics.keep_keys))
        self._peers = peers
        self._remote = remote
        self._metrics = metrics
        self._clock = clock
        self._limits: tuple[KeyLimitPlan, ...] = ()
        self._own = KeyLimits((), clock)
        self._alone = KeyLimits((), clock)
        self._sharing = 1

    def set_limits(self, limits: Sequence[KeyLimitPlan]) -> None:
        """Take the limits that there are now; every key begins with all that it may use."""
        self._limits = tuple(limits)
        self._own = KeyLimits(self._limits, self._clock)
        self._share_among(self._peers.count)

    @asynccontextmanager
    async def known(self, authorization: str | None) -> AsyncIterator[KeyUse]:
        """Let a request in that no limit counts.

        Raises:
            NotAuthenticatedError: its token is not known.
        """
        self._auth.check(authorization)
        yield KeyUse()

    @asynccontextmanager
    async def counted(self, authorization: str | None) -> AsyncIterator[KeyUse]:
        """Let a request in, and count it while the block runs.

        Raises:
            NotAuthenticatedError: its token is not known.
            KeyLimitError: its key has used up what it may.
        """
        name = self._auth.check(authorization)
        limit = self._own.limit_of(name)
        async with AsyncExitStack() as stack:
            if limit == KeyLimitPlan(name=limit.name, weight=limit.weight):
                yield KeyUse()
                return
            with self._rejections(name):
                by, place = await self._enter(stack, name, authorization or "")
            self._metrics.count_key("mm_router_key_requests_total", name, by)
            if limit.tokens_per_minute is None:
                yield KeyUse()
                return

            async def reserve(tokens: int) -> None:
                nonlocal place
                with self._rejections(name):
                    try:
                        await place.reserve(tokens)
                    except OwnerLostError as error:
                        place = self._alone_place(stack, name, error)
                        await place.reserve(tokens)

            use = KeyUse(reserve)
            try:
                yield use
            finally:
                self._metrics.count_tokens(name, use.used)
                with suppress(OwnerLostError):
                    await place.settle(use.used)

    @asynccontextmanager
    async def claimed(self, authorization: str | None) -> AsyncIterator[KeyClaim]:
        """Count a request of another router while the block runs.

        Raises:
            NotAuthenticatedError, KeyLimitError: as for a request of this router's own.
        """
        with self._own.inside(self._auth.check(authorization)) as claim:
            yield claim

    async def _enter(
        self, stack: AsyncExitStack, name: str, authorization: str
    ) -> tuple[CountedBy, "_Place"]:
        owner = self._peers.owner_of(name)
        if owner is None:
            return CountedBy.SELF, _Here(stack.enter_context(self._own.inside(name)))
        try:
            claim = self._remote.claim(owner, authorization, name)
            return CountedBy.OWNER, await stack.enter_async_context(claim)
        except OwnerLostError as error:
            return CountedBy.ALONE, self._alone_place(stack, name, error)

    def _alone_place(self, stack: AsyncExitStack, name: str, error: OwnerLostError) -> "_Here":
        """Return a place within this router's share, as its owner is lost."""
        _LOG.debug("the router that counts %r does not: %s", name, error)
        if self._peers.count != self._sharing:
            self._share_among(self._peers.count)
        return _Here(stack.enter_context(self._alone.inside(name)))

    @contextmanager
    def _rejections(self, name: str) -> Iterator[None]:
        try:
            yield
        except KeyLimitError as error:
            self._metrics.count_key("mm_router_key_rejected_total", name, error.reason)
            raise

    def _keep(self, names: Collection[str]) -> None:
        for limits in (self._own, self._alone):
            limits.keep(names)

    def _share_among(self, routers: int) -> None:
        self._sharing = routers
        shares = [share_of(limit, routers) for limit in self._limits]
        self._alone = KeyLimits(shares, self._clock)


class _Place(Protocol):
    """Where a request is counted."""

    async def reserve(self, tokens: int) -> None:
        """Take tokens of the key's limit."""

    async def settle(self, used: int) -> None:
        """Say what was used of them."""


class _Here:
    """A place that this router counts."""

    def __init__(self, claim: KeyClaim) -> None:
        self._claim = claim

    async def reserve(self, tokens: int) -> None:
        """Take tokens of the key's limit.

        Raises:
            KeyLimitError: the key has not so many now.
        """
        self._claim.reserve(tokens)

    async def settle(self, used: int) -> None:
        self._claim.used = used


def _share(limit: int | None, routers: int) -> int | None:
    return None if limit is None else math.ceil(limit / routers)
