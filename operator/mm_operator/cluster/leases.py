"""One Lease on the API server, for the election."""

from typing import Any

from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import LEASE

REQUEST_SECONDS = 2.0
"""Two attempts fit into the renew deadline of 6.5 s, so one slow answer does not cost the lead."""


class LeaseObject:
    """A Lease by namespace and name. Implements `mm_operator.leadership.lease_thread.LeaseApi`."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    async def get(self) -> dict[str, Any] | None:
        return await self._client.get(LEASE, self._namespace, self._name)

    async def create(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Create the Lease; a ClusterError with 409 when it exists."""
        body = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec,
        }
        return await self._client.create(LEASE, self._namespace, body)

    async def update(self, lease: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
        """Replace the spec; a ClusterError with 409 when the Lease changed since it was read."""
        return await self._client.update(
            LEASE, self._namespace, self._name, {**lease, "spec": spec}
        )
