"""Which claims of users lead to one file system: read from the volume that a claim is bound to.

Two namespaces share a store when their claims are bound to volumes of one source, an NFS export or
a disk of a driver. Each claim is read once and then every ten minutes. Without the right to read
volumes nothing is shared.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from mm_operator.cluster.claim_cache import ClaimCache
from mm_operator.cluster.client import Client
from mm_operator.cluster.models import ModelRecord
from mm_operator.cluster.resources import CLAIM, VOLUME
from mm_operator.errors import ClusterError

_LOG = logging.getLogger(__name__)

_FORBIDDEN = 403

_NO_SOURCE = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)
"""Fields of a volume that do not say where its bytes are. The node of a local one does."""

_SHARES = ("server", "share", "source", "subdir", "subDir")
"""Attributes with which drivers of file shares name one; their handles differ for each volume."""


class StoreIdentities:
    """Knows for each model with a store of the user's which volume that is.

    Args:
        client: for the reads.
        clock: seconds that only grow.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._known = ClaimCache[str](clock)
        self._may_read = True

    async def gather(self, record: ModelRecord) -> None:
        """Read the volume of a model's store when it is not known or long ago.

        Raises:
            ClusterError: it could not be read.
        """
        claim = claim_of(record)
        if not claim or not self._may_read:
            return
        key = (record.key.namespace, claim)
        if self._known.is_fresh(key):
            return
        try:
            identity = await self._read(*key)
        except ClusterError as error:
            if error.status != _FORBIDDEN:
                raise
            self._may_read = False
            _LOG.info("claims of users are swept by no model: %s", error)
            return
        self._known.keep(key, identity, bound=bool(identity))

    def identity(self, record: ModelRecord) -> str:
        """Return what identifies the store's volume; empty when it is not known."""
        return self._known.of((record.key.namespace, claim_of(record)), "")

    async def _read(self, namespace: str, claim: str) -> str:
        found = await self._client.get(CLAIM, namespace, claim)
        name = ((found or {}).get("spec") or {}).get("volumeName")
        volume = await self._client.get(VOLUME, None, name) if name else None
        return volume_identity(volume["spec"]) if volume else ""


def claim_of(record: ModelRecord) -> str:
    """Return the claim of the user's that keeps a model's engines; empty for the operator's own."""
    if record.shares_store:
        return ""
    spec: dict[str, Any] = orjson.loads(record.spec)
    return str(spec["build"]["store"]["persistentVolumeClaim"]["claimName"])


def volume_identity(spec: Mapping[str, Any]) -> str:
    """Return a digest of where a volume's bytes are."""
    source = {name: value for name, value in spec.items() if name not in _NO_SOURCE}
    driver = source.get("csi")
    if driver is not None:
        attributes = driver.get("volumeAttributes") or {}
        share = {name: attributes[name] for name in _SHARES if name in attributes}
        named = "server" in share or "source" in share
        place = share if named else {"handle": driver.get("volumeHandle")}
        source = {"driver": driver.get("driver"), **place}
    text = json.dumps(source, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
