"""Posts an Event for each transition, for `kubectl describe`. Best effort, never retried."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from mm_api import labels
from mm_operator.cluster.client import Client
from mm_operator.cluster.models import ModelRecord
from mm_operator.cluster.resources import EVENT
from mm_operator.errors import ClusterError
from mm_operator.status.events import transitions

_LOG = logging.getLogger(__name__)


async def post_events(
    client: Client,
    record: ModelRecord,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    instance: str,
) -> None:
    """Post what changed between two statuses. A refusal is logged: the conditions say the same."""
    for event in transitions(old, new):
        body: dict[str, Any] = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {
                "namespace": record.key.namespace,
                "name": f"{record.key.name[:200]}.{uuid4().hex[:16]}",
            },
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": labels.FIELD_MANAGER,
            "reportingInstance": instance[:128],
            "action": "Reconcile",
            "reason": event.reason,
            "type": event.type,
            "note": event.message,
            "regarding": {
                "apiVersion": labels.API_VERSION,
                "kind": labels.KIND,
                "namespace": record.key.namespace,
                "name": record.key.name,
                "uid": record.uid,
            },
        }
        try:
            await client.create(EVENT, record.key.namespace, body)
        except ClusterError as error:
            _LOG.info("event %s was not posted: %s", event.reason, error)
            return
