"""Who may send requests, and how many: each router admits its share of every limit."""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter

from mm_api.documents.serving_plan import KeyLimitPlan
from mm_edge.auth import BearerAuth
from mm_edge.errors import KeyLimitError
from mm_edge.key_limits import KeyLimits
from mm_router.metrics import RouterMetrics

_LOG = logging.getLogger(__name__)

_PERIOD_SECONDS = 2.0
"""Between two looks at the limits; the kubelet takes up to a minute to change their file."""

_LIMITS = TypeAdapter(tuple[KeyLimitPlan, ...])


def read_limits(text: bytes) -> tuple[KeyLimitPlan, ...]:
    """Read what the chart has written: a JSON list of limits by name.

    Raises:
        ValueError: it is something else, or has a limit that only gateways keep.
    """
    limits = _LIMITS.validate_json(text)
    if any(one.tokens_per_minute is not None for one in limits):
        raise ValueError("tokensPerMinute is a limit of spec.gateway.keyLimits: remove it here")
    return limits


def share_of(limit: KeyLimitPlan, routers: int) -> KeyLimitPlan:
    """Return what one of several routers admits, rounded up."""
    return limit.model_copy(
        update={
            "requests_per_minute": _share(limit.requests_per_minute, routers),
            "concurrent_requests": _share(limit.concurrent_requests, routers),
        }
    )


class KeyAdmission:
    """Admits requests by the tokens that they carry; their file is read for every request."""

    def __init__(
        self, tokens: Path, routers: int, metrics: RouterMetrics, clock: Callable[[], float]
    ) -> None:
        self._auth = BearerAuth(tokens, (self._keep, metrics.keep_keys))
        self._routers = routers
        self._metrics = metrics
        self._clock = clock
        self._limits = KeyLimits((), clock)
        self._text: bytes | None = None

    def load(self, file: Path) -> None:
        """Take what the file of limits says, if that is news.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not what was expected.
        """
        if (text := file.read_bytes()) != self._text:
            self.set_limits(read_limits(text))
            self._text = text

    async def follow(self, file: Path) -> None:
        """Read the file again and again; what cannot be read changes nothing."""
        problem = ""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                self.load(file)
                problem = ""
            except (OSError, ValueError) as error:
                if str(error) != problem:
                    problem = str(error)
                    _LOG.error("%s is not read, what it said before stays: %s", file, problem)

    def set_limits(self, limits: Sequence[KeyLimitPlan]) -> None:
        """Take the limits that there are now; every key begins with all that it may use."""
        shares = [share_of(limit, self._routers) for limit in limits]
        self._limits = KeyLimits(shares, self._clock)

    @contextmanager
    def counted(self, authorization: str | None) -> Iterator[None]:
        """Admit a request, and count it while the block runs.

        Raises:
            NotAuthenticatedError: its token is not known.
            KeyLimitError: its key has used up what it may.
        """
        name = self._auth.check(authorization)
        limit = self._limits.limit_of(name)
        try:
            with self._limits.inside(name):
                if limit != KeyLimitPlan(name=limit.name, weight=limit.weight):
                    self._metrics.count_key("mm_router_key_requests_total", name)
                yield
        except KeyLimitError as error:
            self._metrics.count_key("mm_router_key_rejected_total", name, error.reason)
            raise

    def _keep(self, names: Collection[str]) -> None:
        self._limits.keep(names)


def _share(limit: int | None, routers: int) -> int | None:
    return None if limit is None else math.ceil(limit / routers)
