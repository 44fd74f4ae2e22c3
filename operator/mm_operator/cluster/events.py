"""Posts an Event for each transition, for `kubectl describe`: in the background, never retried.

Conditions say the same and are always written. When 1,000 models start at once, Events would be
half of all writes: while models wait for a worker only a few a second are posted, warnings first.
What is not posted is counted and summed up in a line of the log, never logged one by one.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

from mm_api import labels
from mm_operator.cluster.client import Client, WritesForbiddenError
from mm_operator.cluster.models import ModelRecord
from mm_operator.cluster.packed import Packed, pack
from mm_operator.cluster.resources import EVENT
from mm_operator.errors import ClusterError
from mm_operator.status.events import Event, transitions

LIMIT = 5000
"""Events in memory at most: 4 MB; five for each of 1,000 models."""

Subject = tuple[str, str, str]
"""Uid of the model, reason, message."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One Event, and where it belongs."""

    subject: Subject
    warns: bool
    namespace: str
    body: Packed


class EventQueue:
    """Hands out warnings before ordinary Events, the oldest of each first.

    `dropped`: called with the reason of each that is given up: `Repeated`, `QueueFull`.
    """

    def __init__(self, dropped: Callable[[str], None], limit: int = LIMIT) -> None:
        self._dropped = dropped
        self._limit = limit
        self._warnings: dict[Subject, Waiting] = {}
        self._ordinary: dict[Subject, Waiting] = {}

    def __len__(self) -> int:
        return len(self._warnings) + len(self._ordinary)

    def put(self, waiting: Waiting) -> None:
        """Take an Event: in place of the same one that still waits, or of the least important."""
        alike = self._warnings if waiting.warns else self._ordinary
        if alike.pop(waiting.subject, None) is not None:
            self._dropped("Repeated")
        elif len(self) >= self._limit:
            self._dropped("QueueFull")
            if not self._ordinary and not waiting.warns:
                return
            _remove_first(self._ordinary or self._warnings)
        alike[waiting.subject] = waiting

    def take(self) -> Waiting:
        """Return the next one; there must be one."""
        return _remove_first(self._warnings or self._ordinary)


def _remove_first(waiting: dict[Subject, Waiting]) -> Waiting:
    return waiting.pop(next(iter(waiting)))


_LOG = logging.getLogger(__name__)

_BUSY_SECONDS = 0.2
"""Between two Events while models wait: five a second, beside some 50 other writes."""

_SUMMARY_SECONDS = 60.0
"""Between two lines of the log about Events that were not posted."""


@dataclass(slots=True, eq=False)
class EventPoster:
    """Takes transitions and posts them one after the other, where no models wait (`busy`).

    `on_drop`: as of `mm_operator.cluster.events`, and `Refused`.
    """

    client: Client
    instance: str
    busy: Callable[[], bool]
    on_drop: Callable[[str], None] = lambda _reason: None
    summary_seconds: float = _SUMMARY_SECONDS
    _waiting: EventQueue = field(init=False)
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _numbers: Iterator[int] = field(default_factory=count, init=False)
    _dropped: Counter[str] = field(default_factory=Counter, init=False)
    _refusal: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._waiting = EventQueue(dropped=self._drop)

    def add(self, record: ModelRecord, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Take what changed between two statuses of a model."""
        now = datetime.now(UTC)
        for event in transitions(old, new):
            name = _name(record.key.name, now, next(self._numbers))
            body = pack(_body(record, event, now, self.instance, name))
            subject = (record.uid, event.reason, event.message)
            warns = event.type == "Warning"
            self._waiting.put(Waiting(subject, warns, record.key.namespace, body))
            self._wakeup.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._post(), name="posting")
            group.create_task(self._sum_up(), name="summary")

    async def _post(self) -> None:
        while True:
            await self._wakeup.wait()
            if not self._waiting:
                self._wakeup.clear()
                continue
            if self.busy():
                await asyncio.sleep(_BUSY_SECONDS)
            waiting = self._waiting.take()
            try:
                await self.client.create(EVENT, waiting.namespace, waiting.body.read())
            except WritesForbiddenError:  # for a moment: a lost lead would cancel this
                self._waiting.put(waiting)
                await asyncio.sleep(_BUSY_SECONDS)
            except ClusterError as error:
                self._refusal = str(error)
                self._drop("Refused")

    async def _sum_up(self) -> None:
        while True:
            await asyncio.sleep(self.summary_seconds)
            if self._dropped:
                counts = ", ".join(f"{n} {reason}" for reason, n in sorted(self._dropped.items()))
                last = f"; the last refusal: {self._refusal}" if self._refusal else ""
                _LOG.info("Events that were not posted: %s%s", counts, last)
                self._dropped.clear()
                self._refusal = ""

    def _drop(self, reason: str) -> None:
        self._dropped[reason] += 1
        self.on_drop(reason)


def _name(model: str, now: datetime, posted: int) -> str:
    """Return a name that sorts by time, microsecond first, then by order within it.

    Events carry full seconds, and kubectl lists those of one second by their names.
    """
    return f"{model[:200]}.{int(now.timestamp() * 1e6):014x}{posted % 0x10000:04x}"


def _body(
    record: ModelRecord, event: Event, now: datetime, instance: str, name: str
) -> dict[str, Any]:
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "namespace": record.key.namespace,
            "name": name,
        },
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "source": {"component": labels.FIELD_MANAGER},
        "reportingComponent": labels.FIELD_MANAGER,
        "reportingInstance": instance[:128],
        "reason": event.reason,
        "type": event.type,
        "message": event.message,
        "involvedObject": {
            "apiVersion": labels.API_VERSION,
            "kind": labels.KIND,
            "namespace": record.key.namespace,
            "name": record.key.name,
            "uid": record.uid,
        },
    }
