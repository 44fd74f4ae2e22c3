"""How much of a node's disk a comparison takes that fetches its checkpoint; who has so much."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mm_api.documents.model_facts import ModelFacts
from mm_api.v1alpha1 import Toleration
from mm_api.v1alpha1.quantity import bytes_of
from mm_operator.cluster.client import Client
from mm_operator.cluster.resources import NODE
from mm_operator.cluster.spare_gpus import is_ready, takes_pods
from mm_operator.errors import ClusterError

_BESIDE_BYTES: Final = 1 << 30
"""Tokenizer and configuration (tokenizer.json of 262,144 tokens, as Gemma 3's, has 33 MB), scratch
files and logs: chosen with room."""

_MOST_NODES: Final = 5000
"""Nodes of the largest cluster that Kubernetes says it supports."""
_PAGE: Final = 50
_GIB: Final = 1 << 30
_DISK: Final = "ephemeral-storage"
_FORBIDDEN: Final = 403


def disk_bytes(facts: ModelFacts, *, engine: int | None) -> int:
    """Return what the pod may take.

    Args:
        facts: of the checkpoint. Pickles stay beside the safetensors that are made of them.
        engine: bytes of the engine where the pod pulls it from a bucket, 0 where a claim holds it;
            None: not recorded. An engine is no larger than its weights then.
    """
    copies = 2 if facts.weight_format == "pickle" else 1
    pulled = facts.weight_bytes if engine is None else engine
    return copies * facts.weight_bytes + pulled + _BESIDE_BYTES


async def no_node_with(
    client: Client, pod: Mapping[str, Any], tolerations: Sequence[Toleration], needed: int
) -> str | None:
    """Return why no node has such a disk; None: one has, or who compares may not read nodes.

    What other pods take of the disk is the scheduler's to count.

    `needed`: bytes.
    """
    selector = ",".join(f"{key}={one}" for key, one in (pod.get("nodeSelector") or {}).items())
    seen, largest = 0, None
    try:
        async for page, _ in client.list(NODE, None, selector=selector, page=_PAGE):
            seen += len(page)
            for node in page:
                if is_ready(node) and takes_pods(node, tolerations):
                    room = _disk_of(node)
                    if room is None or room >= needed:
                        return None
                    largest = max(largest or 0, room)
            if seen >= _MOST_NODES:
                return None
    except ClusterError as error:
        if error.status != _FORBIDDEN:
            raise
        return None
    if largest is None:
        return None  # the scheduler says better why no node takes the pod
    return (
        f"the checkpoint is fetched to the disk of a node, which takes {needed / _GIB:.1f} GiB; of "
        f"nodes that take the pod the largest has {largest / _GIB:.1f} GiB for pods ({_DISK}). "
        "Compare on a cluster that has a node with a larger disk, or a model of the same "
        "checkpoint whose engine is the checkpoint (backend Reference or PyTorch)"
    )


def _disk_of(node: Mapping[str, Any]) -> int | None:
    """Return the disk that pods may take; None: the kubelet does not say, or nothing readable."""
    found = ((node.get("status") or {}).get("allocatable") or {}).get(_DISK)
    try:
        return None if found is None else bytes_of(found)
    except ValueError:
        return None
