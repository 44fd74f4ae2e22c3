"""Looks at nodes and their pods whether the GPUs of one more set of pods are free.

Read when a rollout of strategy Auto begins, and bounded: some nodes, and the pods of fewer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mm_api import labels
from mm_api.v1alpha1 import Toleration
from mm_api.v1alpha1.quantity import number_of
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import NODE, POD
from mm_operator.errors import ClusterError
from mm_operator.model import GpuNeed, SpareGpus

_MOST_NODES = 500
"""That are listed, some 15 kB each."""
_MOST_LOOKED_AT = 20
"""Nodes whose pods are read; a node with GPUs has some tens of pods."""
_PAGE = 25
_FORBIDDEN = 403
_KEEPING_AWAY = frozenset({"NoSchedule", "NoExecute"})


class SpareGpuFinder:
    """Finds out whether needs are met, and keeps each answer for one decision."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found: dict[str, SpareGpus] = {}

    async def look(self, uid: str, namespace: str, need: GpuNeed) -> None:
        """Look for the need of a model; what cannot be read is an answer, too."""
        try:
            self._found[uid] = await self._look(namespace, need)
        except ClusterError as error:
            text = f"nodes and their pods cannot be read ({error.status or 'no answer'})"
            self._found[uid] = SpareGpus(None, f"{text}: nothing says that no GPU is free")

    def take(self, uid: str) -> SpareGpus | None:
        """Return what was found for a model, once; the next rollout looks again."""
        return self._found.pop(uid, None)

    async def _look(self, namespace: str, need: GpuNeed) -> SpareGpus:
        nodes = await self._nodes(need)
        spare: list[int] = []
        everywhere = True
        for name, offered in nodes[:_MOST_LOOKED_AT]:
            pods, all_seen = await self._pods(name, namespace)
            everywhere = everywhere and all_seen
            spare.append(offered - sum(requested(pod, need.resource) for pod in pods))
            if fits(need.pods, spare):
                unseen = "" if everywhere else " (pods of other namespaces were not seen)"
                return SpareGpus(free=True, why=f"{wanted(need)} free{unseen}")
        if len(nodes) > _MOST_LOOKED_AT:
            text = f"{_MOST_LOOKED_AT} of {len(nodes)} nodes were looked at and have no room"
            return SpareGpus(free=None, why=text)
        return SpareGpus(free=False, why=f"no node has {wanted(need, 'have')} free")

    async def _nodes(self, need: GpuNeed) -> list[tuple[str, int]]:
        """Return names of nodes that may take a pod, and how many GPUs each offers."""
        chosen = {labels.GPU_PRODUCT: None, **need.node_labels}
        selector = ",".join(
            key if value is None else f"{key}={value}" for key, value in chosen.items()
        )
        found: list[tuple[str, int]] = []
        seen = 0
        async for page, _ in self._client.list(NODE, None, selector=selector, page=_PAGE):
            seen += len(page)
            found += [(node["metadata"]["name"], offered(node, need)) for node in page]
            if seen >= _MOST_NODES:
                break
        least = min(need.pods)
        return [(name, count) for name, count in found if count >= least]

    async def _pods(self, node: str, namespace: str) -> tuple[list[dict[str, Any]], bool]:
        """Return the pods of a node, and whether they are those of every namespace."""
        fields = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
        try:
            return await self._listed(None, fields), True
        except ClusterError as error:
            if error.status != _FORBIDDEN:
                raise
        return await self._listed(namespace, fields), False

    async def _listed(self, namespace: str | None, fields: str) -> list[dict[str, Any]]:
        pods: list[dict[str, Any]] = []
        async for page, _ in self._client.list(POD, namespace, fields=fields, page=_PAGE):
            pods += page
        return pods


def fits(pods: Iterable[int], spare: Iterable[int]) -> bool:
    """Return whether pods of so many GPUs find nodes with so many spare ones, the largest first."""
    left = sorted(spare)
    for count in sorted(pods, reverse=True):
        place = next((index for index, free in enumerate(left) if free >= count), None)
        if place is None:
            return False
        left[place] -= count
        left.sort()
    return True


def offered(node: Mapping[str, Any], need: GpuNeed) -> int:
    """Return the GPUs of a node that takes such pods; 0 for one that takes none."""
    # Neither a cordon nor a taint may keep its pods away.
    cordoned = (node.get("spec") or {}).get("unschedulable")
    if cordoned or not all(is_tolerated(one, need.tolerations) for one in keeping_away(node)):
        return 0
    status = node.get("status") or {}
    return _count((status.get("allocatable") or {}).get(need.resource))


def keeping_away(node: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return tuple(one for one in taints if one.get("effect") in _KEEPING_AWAY)


def is_tolerated(taint: Mapping[str, Any], tolerations: Iterable[Toleration]) -> bool:
    """Return whether pods go to a node in spite of its taint."""
    return any(
        one.key in {None, taint.get("key")}
        and one.effect in {None, taint.get("effect")}
        and (one.operator == "Exists" or (one.value or "") == (taint.get("value") or ""))
        for one in tolerations
    )


def requested(pod: Mapping[str, Any], resource: str) -> int:
    """Return how many of a resource a pod holds, as the scheduler counts.

    Sidecars hold theirs beside the containers; what another init container needs is free
    again before those start.
    """
    spec = pod.get("spec") or {}
    beside = most = 0
    for container in spec.get("initContainers") or ():
        count = _of(container, resource)
        if container.get("restartPolicy") == "Always":
            beside += count
            most = max(most, beside)
        else:
            most = max(most, beside + count)
    return max(most, beside + sum(_of(one, resource) for one in spec.get("containers") or ()))


def wanted(need: GpuNeed, verb: str = "") -> str:
    """Return what is looked for, with its verb where it is a subject."""
    counts = " and ".join(str(count) for count in need.pods)
    subject = f"{counts} {need.resource} for one more pod"
    if verb:
        return subject
    return f"{subject} {'is' if need.pods == (1,) else 'are'}"


def _of(container: Mapping[str, Any], resource: str) -> int:
    resources = container.get("resources") or {}
    return _count((resources.get("limits") or {}).get(resource))


def _count(quantity: object) -> int:
    try:
        return int(number_of(quantity)) if isinstance(quantity, str | int) else 0
    except ValueError:
        return 0
