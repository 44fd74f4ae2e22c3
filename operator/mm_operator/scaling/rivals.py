"""HorizontalPodAutoscalers of others that move the replicas of our models.

The API server does not note who used the scale subresource of a custom resource, so the one way to
know is to look for who would. KEDA works through such an object as well.
"""

import logging
import time
from collections.abc import Callable, Iterable

from mm_api import labels
from mm_operator.cluster.client import Client
from mm_operator.cluster.keys import Key
from mm_operator.cluster.resources import AUTOSCALER
from mm_operator.errors import ClusterError

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 300.0
"""Between two looks at a namespace where nobody else moved anything."""


class Rivals:
    """Who else moves replicas, by model.

    Args:
        client: lists the objects of a namespace.
        clock: monotonic seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._looked: dict[str, float] = {}
        self._names: dict[Key, str] = {}

    def name(self, key: Key) -> str:
        """Return the name of an object that moves a model's replicas; empty when there is none."""
        return self._names.get(key, "")

    def suspect(self, key: Key) -> None:
        """Look again at the next chance: somebody else moved the replicas."""
        self._looked.pop(key.namespace, None)

    async def look(self, namespaces: Iterable[str]) -> None:
        """Look at namespaces whose last look is old. A refusal is logged: others still move."""
        now = self._clock()
        for namespace in sorted(set(namespaces)):
            known = self._names_in(namespace)
            seconds = _LOOK_SECONDS / 10 if known else _LOOK_SECONDS
            if now - self._looked.get(namespace, float("-inf")) < seconds:
                continue
            self._looked[namespace] = now
            try:
                found = await self._find(namespace)
            except ClusterError as error:
                _LOG.warning("autoscalers of others cannot be looked for: %s", error)
                continue
            for key in known:
                del self._names[key]
            self._names |= found

    def _names_in(self, namespace: str) -> list[Key]:
        return [key for key in self._names if key.namespace == namespace]

    async def _find(self, namespace: str) -> dict[Key, str]:
        found: dict[Key, str] = {}
        async for items, _ in self._client.list(AUTOSCALER, namespace):
            for item in items:
                target, metadata = item["spec"]["scaleTargetRef"], item["metadata"]
                ours = (metadata.get("labels") or {}).get(labels.MODEL)
                if target["kind"] == labels.KIND and not ours:
                    found[Key(namespace, target["name"])] = metadata["name"]
        return found
