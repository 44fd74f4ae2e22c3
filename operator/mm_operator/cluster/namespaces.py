"""Which namespaces this installation serves: a Lease in each of them names the one operator.

The Lease is written once and never renewed, so that nothing is written at rest. Whether its holder
still runs is read from the holder's leader Lease, which the holder's name refers to. The decision
stands in docs/decisions/20261122-one-operator-for-a-namespace.md.
"""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mm_api import labels
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import CLUSTER_ROLE, LEASE, ROLE
from mm_operator.errors import ClusterError

_LOG = logging.getLogger(__name__)

LEASE_NAME = "multimodal-operator-namespace"

RECHECK_SECONDS = 10.0
"""Between two looks at a namespace that is not ours: the validity of a leader Lease."""

SILENT_SECONDS = 60.0
"""A leader Lease without a change for this long has no leader. Six times its validity: a restart of
the only replica must not cost the namespace."""

_CONFLICT = 409
_NOT_FOUND = 404


@dataclass(slots=True, eq=False)
class ServedNamespaces:
    """Decides who serves a namespace; a `mm_operator.cluster.reflector.Sink`.

    `installation`: `<namespace>/<name>` of this installation's leader Lease. `role`: of the rights,
    a Role where `namespaced`: it owns the Lease of a namespace, so that an uninstallation frees it;
    empty: the Lease stays.
    """

    client: Client
    installation: str
    role: str = ""
    namespaced: bool = False
    on_change: Callable[[str], None] = lambda _namespace: None
    clock: Callable[[], float] = time.monotonic
    _held: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    _refused: dict[str, str] = field(default_factory=dict, init=False)
    _leaders: dict[str, tuple[str, float]] = field(default_factory=dict, init=False)
    """Holder -> resource version of its leader Lease, and since when it is that."""

    def put(self, kind: str, item: dict[str, Any]) -> None:
        """Take an added or changed Lease; of another name, it is none of ours."""
        del kind
        metadata = item["metadata"]
        if metadata["name"] != LEASE_NAME:
            return
        before = self._held.get(metadata["namespace"])
        self._held[metadata["namespace"]] = item
        if before is None or _holder(before) != _holder(item):
            self.on_change(metadata["namespace"])

    def keep(
        self, kind: str, uids: Collection[str], *, namespace: str | None, version: int
    ) -> None:
        del kind
        for place, held in tuple(self._held.items()):
            metadata = held["metadata"]
            meant = namespace in {None, place} and int(metadata["resourceVersion"]) <= version
            if meant and metadata["uid"] not in uids:
                self._forget(place)

    def remove(self, kind: str, item: dict[str, Any]) -> None:
        """Forget a deleted Lease: the next reconcile of a model there makes one."""
        del kind
        if item["metadata"]["name"] == LEASE_NAME:
            self._forget(item["metadata"]["namespace"])

    def serves(self, namespace: str) -> bool:
        """Return whether the namespace is ours, as far as it was seen."""
        held = self._held.get(namespace)
        return held is not None and _holder(held) == self.installation

    def refused(self) -> int:
        return len(self._refused)

    async def admits(self, namespace: str) -> bool:
        """Take a namespace that is free; return whether its models may be touched."""
        if self.serves(namespace):
            return True
        held = self._held.get(namespace)
        holder = _holder(held) if held else ""
        if not holder or await self._gone(holder):
            return await self._write(namespace, held)
        self._refuse(namespace, holder)
        return False

    def _forget(self, namespace: str) -> None:
        if self._held.pop(namespace, None) is not None:
            self.on_change(namespace)

    def _refuse(self, namespace: str, holder: str) -> None:
        if self._refused.get(namespace) == holder:
            return
        self._refused[namespace] = holder
        _LOG.warning(
            "namespace %s is served by the operator %s: its models are left alone here. Take the "
            "namespace out of one of the two installations; should %s be gone, delete the Lease %s "
            "in %s",
            namespace,
            holder,
            holder,
            LEASE_NAME,
            namespace,
        )

    async def _gone(self, holder: str) -> bool:
        """Return whether an installation has no leader any more; False where that is unknown."""
        where, slash, name = holder.partition("/")
        if not slash:
            return False
        try:
            lease = await self.client.get(LEASE, where, name)
        except ClusterError as error:
            _LOG.debug("whether %s still runs is unknown: %s", holder, error)
            return False
        if lease is None:
            return True
        version = lease["metadata"]["resourceVersion"]
        known = self._leaders.get(holder)
        if known is None or known[0] != version:
            self._leaders[holder] = version, self.clock()
            return False
        return self.clock() - known[1] >= SILENT_SECONDS

    async def _write(self, namespace: str, held: dict[str, Any] | None) -> bool:
        """Write this installation as the holder; False when another was faster."""
        metadata: dict[str, Any] = {
            "name": LEASE_NAME,
            "namespace": namespace,
            "labels": {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE},
        }
        metadata |= await self._owners(namespace)
        body: dict[str, Any] = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": metadata,
            "spec": {"holderIdentity": self.installation, "acquireTime": _now()},
        }
        try:
            if held is None:
                answer = await self.client.create(LEASE, namespace, body)
                _LOG.info("serving namespace %s", namespace)
            else:
                metadata["resourceVersion"] = held["metadata"]["resourceVersion"]
                answer = await self.client.update(LEASE, namespace, LEASE_NAME, body)
                _LOG.info("serving namespace %s after %r", namespace, _holder(held))
        except ClusterError as error:
            if error.status == _NOT_FOUND:  # deleted, which the watch did not report yet
                self._forget(namespace)
            if error.status in {_CONFLICT, _NOT_FOUND}:
                return await self._is_mine(namespace)
            raise
        self._refused.pop(namespace, None)
        self.put(LEASE.kind, answer)
        return True

    async def _is_mine(self, namespace: str) -> bool:
        """Read whose the Lease is by now: another worker of this process may have been faster."""
        lease = await self.client.get(LEASE, namespace, LEASE_NAME)
        if lease is None:
            return False
        self.put(LEASE.kind, lease)
        return self.serves(namespace)

    async def _owners(self, namespace: str) -> dict[str, Any]:
        """Return the owner of a new Lease as part of its metadata; nothing where it is unknown."""
        if not self.role:
            return {}
        resource = ROLE if self.namespaced else CLUSTER_ROLE
        place = namespace if self.namespaced else None
        try:
            role = await self.client.get(resource, place, self.role)
        except ClusterError as error:
            _LOG.warning("the Lease of namespace %s gets no owner: %s", namespace, error)
            return {}
        if role is None:
            return {}
        owner = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": self.role,
            "uid": role["metadata"]["uid"],
        }
        return {"ownerReferences": [owner]}


def _holder(lease: dict[str, Any]) -> str:
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
