"""What the clients of one key may use of one server: requests, tokens, and both at one time.

Requests and tokens a minute are budgets that fill up continuously: a client that was silent for a
minute may use a minute's worth at once. Tokens are reserved before an answer, prompt and longest
answer, and what was not generated is given back after it.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mm_api.documents.serving_plan import ANY_KEY, KeyLimitPlan
from mm_edge.errors import KeyLimitError

_MINUTE = 60.0
_NO_LIMIT = KeyLimitPlan(name=ANY_KEY)


class Budget:
    """An amount that fills up to one minute's worth."""

    def __init__(self, per_minute: int, now: float) -> None:
        self._most = float(per_minute)
        self._left = self._most
        self._at = now

    def seconds_until(self, amount: float, now: float) -> float:
        """Return when so much is there; 0: now. More than a minute's worth needs all of it."""
        self._fill(now)
        missing = min(amount, self._most) - self._left
        return max(0.0, missing * _MINUTE / self._most)

    def take(self, amount: float, now: float) -> None:
        """Use an amount; what is not there is missing later."""
        self._fill(now)
        self._left -= amount

    def give(self, amount: float, now: float) -> None:
        """Put back what was not used; a negative amount was used beyond what was taken."""
        self._fill(now)
        self._left = min(self._most, self._left + amount)

    def _fill(self, now: float) -> None:
        self._left = min(self._most, self._left + (now - self._at) * self._most / _MINUTE)
        self._at = now


@dataclass(slots=True)
class _Use:
    """What one key uses now."""

    requests: Budget | None
    tokens: Budget | None
    inside: int = 0


class KeyLimits:
    """The limits of all keys, each with its own budgets."""

    def __init__(self, limits: Sequence[KeyLimitPlan], clock: Callable[[], float]) -> None:
        """Take the limits by name; those of `*` are for each key that has none of its own."""
        self._limits = {limit.name: limit for limit in limits}
        self._others = self._limits.get(ANY_KEY, _NO_LIMIT)
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    def limit_of(self, name: str) -> KeyLimitPlan:
        return self._limits.get(name, self._others)

    def keep(self, names: Collection[str]) -> None:
        """Forget keys that are gone, but for those with requests inside."""
        self._uses = {name: use for name, use in self._uses.items() if use.inside or name in names}

    @contextmanager
    def inside(self, name: str) -> Iterator["KeyClaim"]:
        """Count one request of a key while the block runs, or raise KeyLimitError."""
        limit, now = self.limit_of(name), self._clock()
        use = self._uses.get(name)
        if use is None:
            use = self._uses[name] = _Use(
                requests=_budget(limit.requests_per_minute, now),
                tokens=_budget(limit.tokens_per_minute, now),
            )
        most = limit.concurrent_requests
        if most is not None and use.inside >= most:
            raise _refused(name, f"{most} requests at one time", "key_concurrent", 1)
        if use.requests is not None:
            if wait := use.requests.seconds_until(1, now):
                text = f"{limit.requests_per_minute} requests a minute"
                raise _refused(name, text, "key_requests", wait)
            use.requests.take(1, now)
        use.inside += 1
        claim = KeyClaim(name, limit, use.tokens, self._clock)
        try:
            yield claim
        finally:
            use.inside -= 1
            claim.settle()


class KeyClaim:
    """What one request uses of its key's tokens."""

    def __init__(
        self, name: str, limit: KeyLimitPlan, tokens: Budget | None, clock: Callable[[], float]
    ) -> None:
        self.name = name
        self.weight = limit.weight
        self.used = 0
        self._limit = limit
        self._tokens = tokens
        self._clock = clock
        self._reserved = 0

    def reserve(self, tokens: int) -> None:
        """Take what the request uses at the most, or raise KeyLimitError."""
        if self._tokens is None:
            return
        now = self._clock()
        if wait := self._tokens.seconds_until(tokens, now):
            text = f"{self._limit.tokens_per_minute} tokens a minute"
            raise _refused(self.name, text, "key_tokens", wait)
        self._tokens.take(tokens, now)
        self._reserved += tokens

    def settle(self) -> None:
        """Give back what was not used; what was used beyond the estimate is missing later."""
        if self._tokens is not None:
            self._tokens.give(self._reserved - self.used, self._clock())
            self._reserved = self.used = 0


def _budget(per_minute: int | None, now: float) -> Budget | None:
    return None if per_minute is None else Budget(per_minute, now)


def _refused(name: str, allowed: str, reason: str, seconds: float) -> KeyLimitError:
    return KeyLimitError(
        f"The key `{name}` may use {allowed} here, and has. Try again later.",
        key=name,
        retry_after_seconds=max(1, math.ceil(seconds)),
        reason=reason,
        code="rate_limit_exceeded",
    )
