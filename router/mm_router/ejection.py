"""PURE: replicas that fail are left alone, longer each time, then tried with one request.

Passive: what becomes of requests is all that is known. Times are of a clock that only goes forward.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

FIRST_SECONDS = 1.0
"""After the first ejection: a pod that is gone has left the EndpointSlice by then."""

LONGEST_SECONDS = 30.0
"""A replica that stays broken costs one request in each of these (Envoy's base_ejection_time)."""

ERRORS = 5
"""Answers in a row that are the server's fault (Envoy's consecutive_5xx); one is a request's."""


class Failure(StrEnum):
    """How a replica failed; the label of a metric."""

    UNREACHABLE = "unreachable"
    """No connection: it is ejected at once."""
    BROKEN = "broken"
    """The connection ended before the answer did: at once."""
    ERRORS = "errors"
    """Several answers in a row were 500, 502 or 503."""


@dataclass(slots=True)
class _Record:
    errors: int = 0
    ejected: bool = False
    until: float = 0.0
    seconds: float = 0.0
    on_trial: bool = False


class Ejections:
    """What is known of each replica's health."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def choosable(self, replicas: Collection[str], now: float) -> list[str]:
        """Return the replicas that may get a request: all of them where every one is ejected.

        One whose time is over may get one request, until it has answered.
        """
        healthy = [one for one in replicas if self._is_open(one, now)]
        return healthy or list(replicas)

    def some_open(self, replicas: Collection[str], now: float) -> bool:
        """Return whether one of the replicas may get a request without being a last resort."""
        return any(self._is_open(one, now) for one in replicas)

    def chosen(self, replica: str) -> None:
        """Note that a request goes to a replica: the trial of one that was ejected."""
        record = self._records.get(replica)
        if record is not None and record.ejected:
            record.on_trial = True

    def answered(self, replica: str) -> None:
        self._records.pop(replica, None)

    def left(self, replica: str) -> None:
        """End a request; a trial that has shown nothing, because its client left, is repeated."""
        record = self._records.get(replica)
        if record is not None:
            record.on_trial = False

    def failed(self, replica: str, failure: Failure, now: float) -> bool:
        """Note a failure; return whether it ejects the replica now."""
        record = self._records.setdefault(replica, _Record())
        was_on_trial, record.on_trial = record.on_trial, False
        record.errors += 1
        if failure is Failure.ERRORS and record.errors < ERRORS and not was_on_trial:
            return False
        if record.ejected and not was_on_trial and now < record.until:
            return False  # another request of the same moment has said so
        record.ejected = True
        record.seconds = min(2 * record.seconds or FIRST_SECONDS, LONGEST_SECONDS)
        record.until = now + record.seconds
        return True

    def ejected(self) -> int:
        return sum(record.ejected for record in self._records.values())

    def keep(self, replicas: Collection[str]) -> None:
        for gone in self._records.keys() - set(replicas):
            del self._records[gone]

    def _is_open(self, replica: str, now: float) -> bool:
        record = self._records.get(replica)
        if record is None or not record.ejected:
            return True
        return now >= record.until and not record.on_trial
