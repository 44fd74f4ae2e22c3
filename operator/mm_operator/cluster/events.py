"""Posts an Event for each transition, for `kubectl describe`: in the background, never retried.

Conditions say the same and are always written. When 1,000 models start at once, Events would be
half of all writes: they wait until no model does, and the oldest are dropped when too many wait.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

from mm_api import labels
from mm_operator.cluster.client import Client, WritesForbiddenError
from mm_operator.cluster.models import ModelRecord
from mm_operator.cluster.resources import EVENT
from mm_operator.errors import ClusterError
from mm_operator.status.events import Event, transitions

_LOG = logging.getLogger(__name__)

_WAITING_LIMIT = 5000
"""Events in memory at most: 5 MB; five for each of 1,000 models."""

_DELAY_SECONDS = 0.5
_MOST_DELAYS = 120
"""Together one minute: then Events are posted although models still wait."""


class EventPoster:
    """Takes transitions and posts them one after the other.

    Args:
        client: sends the requests.
        instance: this replica's name.
        busy: whether models wait to be reconciled.
    """

    def __init__(self, client: Client, instance: str, busy: Callable[[], bool]) -> None:
        self._client = client
        self._instance = instance
        self._busy = busy
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_WAITING_LIMIT)
        self._wakeup = asyncio.Event()
        self._delays = 0
        self._told = count()

    def tell(self, record: ModelRecord, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Take what changed between two statuses of a model."""
        now = datetime.now(UTC)
        for event in transitions(old, new):
            name = _name(record.key.name, now, next(self._told))
            body = _body(record, event, now, self._instance, name)
            self._waiting.append((record.key.namespace, body))
            self._wakeup.set()

    async def run(self) -> None:
        """Post until cancelled. A refusal is logged and forgotten."""
        while True:
            await self._wakeup.wait()
            if not self._waiting:
                self._wakeup.clear()
                self._delays = 0
                continue
            if self._busy() and self._delays < _MOST_DELAYS:
                self._delays += 1
                await asyncio.sleep(_DELAY_SECONDS)
                continue
            namespace, body = self._waiting.popleft()
            try:
                await self._client.create(EVENT, namespace, body)
            except (ClusterError, WritesForbiddenError) as error:
                _LOG.info("event %s was not posted: %s", body["reason"], error)


def _name(model: str, now: datetime, told: int) -> str:
    """Return a name that sorts by time, microsecond first, then by order within it.

    Events carry whole seconds, and kubectl lists those of one second by their names.
    """
    return f"{model[:200]}.{int(now.timestamp() * 1e6):014x}{told % 0x10000:04x}"


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
