"""Which claims of users one node, or one pod, may attach: of the claim, once bound of its volume.

Each is read once and then every ten minutes.
"""

import time
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from mm_operator.cluster.client import Client
from mm_operator.cluster.models import ModelRecord
from mm_operator.cluster.resources import CLAIM

_MAX_AGE_SECONDS = 600.0
"""What a bound claim is does not change, but one may be deleted and created again."""

_UNBOUND_SECONDS = 30.0

_SEVERAL_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})
"""With one of these among a volume's modes the attach controller lets a second node have it
(isMultiAttachForbidden in pkg/volume/util of Kubernetes)."""

_ONE_POD = "ReadWriteOncePod"
"""Never beside another mode (validateAccessModes in pkg/apis/core/validation of Kubernetes)."""


class Attached(Enum):
    """Who may have a claim at one time."""

    BY_ANY = auto()
    BY_ONE_NODE = auto()
    BY_ONE_POD = auto()


class ClaimModes:
    """Knows for each model which of its claims only one node, or only one pod, may attach."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[str, str], tuple[Attached, float]] = {}
        """By namespace and name: what was read last, and until when it is not read again."""

    async def gather(self, record: ModelRecord) -> None:
        """Read the claims of a model that are not known or were read long ago, or a ClusterError.

        A Job that is made without the answer would stay where it is.
        """
        for claim in record.claims:
            key = (record.key.namespace, claim)
            if key in self._known and time.monotonic() < self._known[key][1]:
                continue
            found = await self._client.get(CLAIM, *key)
            bound = found is not None and bool((found.get("spec") or {}).get("volumeName"))
            attached = attached_by(found or {})
            # One that is refused is soon created again, and the model waits for that.
            lasts = bound and attached is not Attached.BY_ONE_POD
            kept = _MAX_AGE_SECONDS if lasts else _UNBOUND_SECONDS
            self._known[key] = attached, time.monotonic() + kept

    def for_one_node(self, record: ModelRecord) -> tuple[str, ...]:
        return self._such(record, Attached.BY_ONE_NODE, Attached.BY_ONE_POD)

    def for_one_pod(self, record: ModelRecord) -> tuple[str, ...]:
        return self._such(record, Attached.BY_ONE_POD)

    def _such(self, record: ModelRecord, *those: Attached) -> tuple[str, ...]:
        keys = ((record.key.namespace, name) for name in record.claims)
        return tuple(key[1] for key in keys if key in self._known and self._known[key][0] in those)


def attached_by(claim: Mapping[str, Any]) -> Attached:
    """Return who may have a claim at one time; unbound, as it requests its volume."""
    status, spec = claim.get("status") or {}, claim.get("spec") or {}
    modes = frozenset(status.get("accessModes") or spec.get("accessModes") or ())
    if modes == {_ONE_POD}:
        return Attached.BY_ONE_POD
    return Attached.BY_ONE_NODE if modes and not modes & _SEVERAL_NODES else Attached.BY_ANY
