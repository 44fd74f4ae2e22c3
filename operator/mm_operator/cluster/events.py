"""Posts an Event for each transition, for `kubectl describe`: in the background, never retried.

Conditions say the same and are always written. When 1,000 models start at once, Events would be
half of all writes: while models wait for a worker only a few a second are posted, warnings first.
What is not posted is counted by a metric, and a refusal is logged once a minute.
"""

import asyncio
import logging
import time
from collections import deque
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

LIMIT = 2500
"""Warnings in memory at most, and as many ordinary Events: 4 MB; five for each of 1,000 models."""

_LOG = logging.getLogger(__name__)

_BUSY_SECONDS = 0.2
"""Between two Events while models wait: five a second, beside some 50 other writes."""

_LOG_SECONDS = 60.0
"""Between two lines of the log about Events that were refused."""

Waiting = deque[tuple[str, Packed]]
"""Namespaces and Events; a full one gives up its oldest."""


def _queue() -> Waiting:
    return deque(maxlen=LIMIT)


@dataclass(slots=True, eq=False)
class EventPoster:
    """Takes transitions and posts them one after the other, with pauses where models wait (`busy`).

    `on_drop`: called with the reason of each that is given up: `QueueFull`, `Refused`.
    """

    client: Client
    instance: str
    busy: Callable[[], bool]
    on_drop: Callable[[str], None] = lambda _reason: None
    _warnings: Waiting = field(default_factory=_queue, init=False)
    _ordinary: Waiting = field(default_factory=_queue, init=False)
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _numbers: Iterator[int] = field(default_factory=count, init=False)
    _logged_at: float = field(default=-_LOG_SECONDS, init=False)

    def add(self, record: ModelRecord, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Take what changed between two statuses of a model."""
        now = datetime.now(UTC)
        for event in transitions(old, new):
            name = _name(record.key.name, now, next(self._numbers))
            body = pack(_body(record, event, now, self.instance, name))
            queue = self._warnings if event.type == "Warning" else self._ordinary
            if len(queue) == LIMIT:
                self.on_drop("QueueFull")
            queue.append((record.key.namespace, body))
            self._wakeup.set()

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            await self._wakeup.wait()
            if self.busy():
                await asyncio.sleep(_BUSY_SECONDS)
            queue = self._warnings or self._ordinary
            if not queue:
                self._wakeup.clear()
                continue
            namespace, body = queue.popleft()
            try:
                await self.client.create(EVENT, namespace, body.read())
            except WritesForbiddenError:  # for a moment: a lost lead would cancel this
                queue.appendleft((namespace, body))
                await asyncio.sleep(_BUSY_SECONDS)
            except ClusterError as error:
                self.on_drop("Refused")
                if time.monotonic() - self._logged_at >= _LOG_SECONDS:
                    self._logged_at = time.monotonic()
                    _LOG.info("an Event was refused, as others may be: %s", error)


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
