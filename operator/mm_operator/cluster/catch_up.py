"""What a cache lacks of what the API server holds at this moment.

A watch that lags shows the past, and looks like one of a kind of which nothing changes. A list
without a version is read from the store itself: names and versions suffice to compare.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import Resource

_FORBIDDEN, _NOT_FOUND = 403, 404
UNREADABLE = frozenset({_FORBIDDEN, _NOT_FOUND})
"""Statuses of a kind that is not defined or may not be read: nothing is known of it anyway."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of a kind and namespace, by their metadata."""

    uids: frozenset[str]
    version: int
    missed: tuple[tuple[str, str], ...]
    """Namespace and name of those that the cache does not hold in this version or a later one."""


async def compare(
    client: Client,
    resource: Resource,
    namespace: str | None,
    selector: str,
    holds: Callable[[Mapping[str, Any]], bool],
) -> Listing:
    """List a kind's metadata and compare it with a cache; ClusterError: no answer, or a refusal.

    `holds`: whether the cache holds an object of this metadata, or a later version of it.
    """
    uids: set[str] = set()
    missed: list[tuple[str, str]] = []
    version = "0"
    pages = client.list(resource, namespace, selector=selector, metadata_only=True)
    async for items, version in pages:  # noqa: B007  # the last page's version is what is wanted
        for metadata in (item["metadata"] for item in items):
            uids.add(metadata["uid"])
            if not holds(metadata):
                missed.append((metadata["namespace"], metadata["name"]))
    return Listing(frozenset(uids), int(version), tuple(missed))
