"""How much of an object is held: who may use our label may make any number of objects of 1 MB.

What is left out is the payload. Metadata stays: the object exists, it has an owner, it has a
version. A child of ours whose payload is not held looks changed, and is applied again.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from mm_operator.cluster.resources import CONFIG, DEPLOYMENT, GROUP, JOB, POD

_LOG = logging.getLogger(__name__)

OBJECT_BYTES = 256 * 1024
"""Size of one object; the largest child of ours, a ConfigMap with a serving plan, has some 30
kB."""

_STRANGER_BYTES = 32 * 1024
"""Size of one that no model owns. Pods are their Job's or ReplicaSet's, and held without a spec."""

_NAMESPACE_BYTES = 4 * 1024 * 1024
_OWNER_BYTES = 512 * 1024
"""ConfigMaps of a namespace: for each model that owns some, ten times what a model's have. Owners
that do not exist do not count: Kubernetes deletes what they own."""

_REFERENCE_BYTES = 128
"""Size of an owner reference to a model with the shortest name. References are metadata and held
anyway; what the models of a namespace share has one for each of them, 400 kB for 3,000."""

_PAYLOAD = ("data", "binaryData", "spec", "status")

LIST_PAGE = {CONFIG.kind: 25, DEPLOYMENT.kind: 50, JOB.kind: 50, GROUP.kind: 25, POD.kind: 100}
"""Objects of one answer to a list: 25 MB of ConfigMaps at the most. Of ours a page is some 300 kB,
which are parsed in 5 ms; nothing else runs meanwhile."""


def without_payload(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's metadata; its annotations only where they are few."""
    lean = {name: value for name, value in item.items() if name not in _PAYLOAD}
    annotations = lean["metadata"].get("annotations") or {}
    if len(orjson.dumps(annotations)) > _STRANGER_BYTES:
        lean["metadata"] = {**lean["metadata"], "annotations": {}}
    return lean


class Bounds:
    """What the held ConfigMaps of each namespace take, and how many models own them."""

    def __init__(self) -> None:
        self._bytes: dict[str, int] = defaultdict(int)
        self._owners: dict[str, Counter[str]] = defaultdict(Counter)
        self._reported: set[str] = set()

    def admit(self, kind: str, namespace: str, owners: Iterable[str], size: int) -> bool:
        """Return whether a payload of `size` bytes is held; one that is not is logged once."""
        owned = set(owners)
        size -= _REFERENCE_BYTES * len(owned)
        fits = size <= OBJECT_BYTES and (owned or kind == POD.kind or size <= _STRANGER_BYTES)
        if fits and kind == CONFIG.kind:
            known = self._owners[namespace]
            owning = len(known) + sum(uid not in known for uid in owned)
            most = _NAMESPACE_BYTES + _OWNER_BYTES * owning
            fits = self._bytes[namespace] + size <= most
        if not fits:
            self._report(kind, namespace)
        return bool(fits)

    def add(self, kind: str, namespace: str, owners: Iterable[str], size: int) -> None:
        if kind == CONFIG.kind:
            self._bytes[namespace] += size
            self._owners[namespace].update(owners)

    def remove(self, kind: str, namespace: str, owners: Iterable[str], size: int) -> None:
        if kind == CONFIG.kind:
            self._bytes[namespace] -= size
            counts = self._owners[namespace]
            for uid in owners:
                counts[uid] -= 1
                if not counts[uid]:
                    del counts[uid]

    def _report(self, kind: str, namespace: str) -> None:
        if namespace not in self._reported:
            self._reported.add(namespace)
            _LOG.warning(
                "a %s of namespace %s has the operator's label and more content than the objects "
                "of a model: its content is not held. Look for objects that the operator did "
                "not make.",
                kind,
                namespace,
            )
