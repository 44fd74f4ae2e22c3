"""Which claims of users one node may attach: read from the claim, of its volume once it is bound.

Each is read once and then every ten minutes.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from mm_operator.cluster.client import Client
from mm_operator.cluster.kept import Kept
from mm_operator.cluster.models import ModelRecord
from mm_operator.cluster.resources import CLAIM

_SEVERAL_NODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})
"""With one of these among a volume's modes the attach controller lets a second node have it
(isMultiAttachForbidden in pkg/volume/util of Kubernetes)."""


class ClaimModes:
    """Knows for each model which of its claims only one node may attach.

    Args:
        client: for the reads.
        clock: seconds that only grow.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._known = Kept[bool](clock)

    async def gather(self, record: ModelRecord) -> None:
        """Read the claims of a model that are not known or were read long ago.

        Raises:
            ClusterError: one could not be read; a Job that is made then would stay where it is.
        """
        for claim in record.claims:
            key = (record.key.namespace, claim)
            if self._known.is_fresh(key):
                continue
            found = await self._client.get(CLAIM, *key)
            bound = found is not None and bool((found.get("spec") or {}).get("volumeName"))
            self._known.keep(key, is_for_one_node(found or {}), bound=bound)

    def for_one_node(self, record: ModelRecord) -> tuple[str, ...]:
        """Return the claims of a model that one node may attach."""
        namespace = record.key.namespace
        return tuple(
            name for name in record.claims if self._known.of((namespace, name), unknown=False)
        )


def is_for_one_node(claim: Mapping[str, Any]) -> bool:
    """Return whether a second node may not attach a claim; unbound, as it asks for its volume."""
    status, spec = claim.get("status") or {}, claim.get("spec") or {}
    modes = frozenset(status.get("accessModes") or spec.get("accessModes") or ())
    return bool(modes) and not modes & _SEVERAL_NODES
