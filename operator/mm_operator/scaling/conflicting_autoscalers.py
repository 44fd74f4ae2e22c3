"""HorizontalPodAutoscalers that move the replicas of our models beside the configured engine.

The API server does not note who used the scale subresource of a custom resource, so the one way to
know is to look for who would. KEDA works through such an object as well: one that belongs to our
ScaledObject is a rival only while another engine is configured, until KEDA has taken it away.

One that targets a model's Deployment (`kubectl autoscale deployment`) is a rival of any engine: the
reconcile sets back what it writes there.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable

from mm_api import labels
from mm_operator import names
from mm_operator.cluster.client import Client
from mm_operator.cluster.keys import Key
from mm_operator.cluster.resources import AUTOSCALER, SCALED_OBJECT
from mm_operator.errors import ClusterError

_LOG = logging.getLogger(__name__)

_DEPLOYMENT = "Deployment"

_REFRESH_SECONDS = 300.0
"""Between two lists of a namespace where no other writer moved replicas."""


class ConflictingAutoscalers:
    """Who else moves replicas, by model.

    Args:
        client: lists the objects of a namespace.
        clock: monotonic seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._refreshed: dict[str, float] = {}
        self._names: dict[Key, dict[str, str]] = {}
        """For each model: name of an object -> the engine it works for, empty: it is not ours."""

    def name(self, key: Key, engine: str) -> str:
        """Return the name of an object that moves a model's replicas; empty when there is none.

        `engine`: the configured one; its own object is no rival.
        """
        others = sorted(name for name, of in self._names.get(key, {}).items() if of != engine)
        return next(iter(others), "")

    def suspect(self, key: Key) -> None:
        """List again at the next refresh: another writer moved the replicas."""
        self._refreshed.pop(key.namespace, None)

    async def refresh(self, keys: Iterable[Key]) -> None:
        """List again where the last list is old. A refusal is logged: others still move."""
        now = self._clock()
        models: dict[str, set[str]] = defaultdict(set)
        for key in keys:
            models[key.namespace].add(key.name)
        for namespace in sorted(models):
            known = [key for key in self._names if key.namespace == namespace]
            seconds = _REFRESH_SECONDS / 10 if known else _REFRESH_SECONDS
            if now - self._refreshed.get(namespace, float("-inf")) < seconds:
                continue
            self._refreshed[namespace] = now
            try:
                found = await self._find(namespace, models[namespace])
            except ClusterError as error:
                _LOG.warning("other autoscalers cannot be listed: %s", error)
                continue
            for key in known:
                del self._names[key]
            self._names |= found

    async def _find(self, namespace: str, models: Iterable[str]) -> dict[Key, dict[str, str]]:
        found: dict[Key, dict[str, str]] = defaultdict(dict)
        deployments = {names.deployment(model): model for model in models}
        async for items, _ in self._client.list(AUTOSCALER, namespace):
            for item in items:
                target, metadata = item["spec"]["scaleTargetRef"], item["metadata"]
                if target["kind"] == _DEPLOYMENT and target["name"] in deployments:
                    found[Key(namespace, deployments[target["name"]])][metadata["name"]] = ""
                if target["kind"] != labels.KIND:
                    continue
                owners = metadata.get("ownerReferences") or ()
                owned = {(one["kind"], one["name"]) for one in owners}
                through_keda = (SCALED_OBJECT.kind, names.autoscaler(target["name"])) in owned
                engine = "KEDA" if through_keda else ""
                found[Key(namespace, target["name"])][metadata["name"]] = engine
        return dict(found)
