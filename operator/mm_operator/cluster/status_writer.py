"""Writes the status: once per reconcile, only the difference, not at all when there is none."""

from collections.abc import Mapping
from typing import Any

from mm_operator.cluster.client import Client
from mm_operator.cluster.models import ModelCache, ModelRecord
from mm_operator.cluster.resources import MODEL


def merge_patch(old: Any, new: Any) -> Any:
    """Return the JSON merge patch (RFC 7396) from old to new; lists are replaced entirely."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    patch = {name: None for name in old if name not in new}
    for name, value in new.items():
        if name not in old:
            patch[name] = value
        elif old[name] != value:
            patch[name] = merge_patch(old[name], value)
    return patch


async def write_status(
    client: Client,
    models: ModelCache,
    record: ModelRecord,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
) -> bool:
    """Write a status and return whether a write was needed; ClusterError: refused (404, 409: gone).

    The patch carries the uid: a model that was deleted and created again keeps its own status.
    """
    patch = merge_patch(old, new)
    if not patch:
        return False
    body = {"metadata": {"uid": record.uid}, "status": patch}
    key = record.key
    answer = await client.merge(MODEL, key.namespace, key.name, body, subresource="status")
    models.put(answer, own=True)
    return True
