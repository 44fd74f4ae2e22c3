"""One Lease for each engine that namespaces share: whose builds may start.

The holder is a namespace with its engine's ConfigMap. A Lease is not renewed: whether its holder
still builds is read from the cluster, so no clock decides it. Only one that has just been taken
counts by its age, because the Job that it was taken for comes a moment later. Where this cannot
see the holder (another installation, which serves other namespaces), the Lease counts for as long
as a build may take; should clocks differ, the lock in the store still lets one builder in.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import LEASE
from mm_operator.errors import ClusterError

_LOG = logging.getLogger(__name__)

GRACE = timedelta(seconds=30)
"""From taking a Lease to the Job in the caches: two requests and a watch event."""

_CONFLICT = 409


class BuildLeases:
    """Takes and gives back the Leases of shared engines.

    Args:
        client: for the requests.
        namespace: the operator's own.
        clock: the current time, aware of its zone.
        sees: whether the operator serves a namespace.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        clock: Callable[[], datetime],
        sees: Callable[[str], bool],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._sees = sees
        self._held: set[tuple[str, str]] = set()

    async def take(
        self, shared: str, holder: str, seconds: int, builds: Callable[[str], bool]
    ) -> bool:
        """Return whether a build of a shared engine may start now.

        Args:
            shared: key of the engine in its store.
            holder: `<namespace>/<engine's ConfigMap>` that wants to build.
            seconds: how long a build may take.
            builds: whether another holder has a Job at work that is worth waiting for.
        """
        name = lease_name(shared)
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": _written(self._clock()),
        }
        found = await self._client.get(LEASE, self._namespace, name)
        try:
            if found is None:
                body = {
                    "apiVersion": LEASE.api_version,
                    "kind": LEASE.kind,
                    "metadata": {"name": name, "namespace": self._namespace},
                    "spec": spec,
                }
                await self._client.create(LEASE, self._namespace, body)
            elif found["spec"].get("holderIdentity") != holder:
                if self._counts(found["spec"], builds, timedelta(seconds=seconds)):
                    return False
                fresh = {**found, "spec": spec}
                await self._client.update(LEASE, self._namespace, name, fresh)
        except ClusterError as error:
            if error.status == _CONFLICT:  # another replica was faster
                return False
            raise
        self._held.add((shared, holder))
        return True

    async def give_back(self, shared: str, holder: str) -> None:
        """Delete the Lease of an engine that is built, if it was taken here."""
        if (shared, holder) not in self._held:
            return
        self._held.discard((shared, holder))
        name = lease_name(shared)
        try:
            found = await self._client.get(LEASE, self._namespace, name)
            if found and found["spec"].get("holderIdentity") == holder:
                await self._client.delete(
                    LEASE, self._namespace, name, uid=found["metadata"]["uid"]
                )
        except ClusterError as error:
            _LOG.info("%s stays, which has no effect: %s", name, error)

    def _counts(
        self, spec: dict[str, Any], builds: Callable[[str], bool], patience: timedelta
    ) -> bool:
        holder = spec.get("holderIdentity") or ""
        text = spec.get("acquireTime")
        age = self._clock() - datetime.fromisoformat(text) if text else timedelta.max
        if not self._sees(holder.partition("/")[0]):
            return age < min(patience, timedelta(seconds=spec.get("leaseDurationSeconds") or 0))
        return abs(age) < GRACE or builds(holder)


def lease_name(shared: str) -> str:
    return f"engine-{shared}"


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
