"""Copies of the children, kept by reflectors: trimmed, packed, found by model or engine.

Most objects are never looked at again, and 1,000 models at rest must fit into 200 MB.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

from mm_api import labels
from mm_operator.cluster.bounds import Bounds, without_payload
from mm_operator.cluster.keys import Key
from mm_operator.cluster.packed import Packed, pack
from mm_operator.cluster.resources import CONFIG, JOB, POD

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
_DROPPED_METADATA = ("managedFields", "selfLink", "generateName")
_POD_SPEC_FIELDS = ("nodeName",)

_REMEMBERED_OBJECTS = 32
_REMEMBERED_BYTES = 32_768
"""One reconcile reads an object in several ways, one after the other. A text of this length is as
nested dictionaries some 200 kB."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cached:
    """One object: what it is found by, and itself, trimmed and packed."""

    kind: str
    namespace: str
    name: str
    uid: str
    version: int
    model: str
    """Name of the model it belongs to; empty when several share it."""
    engine: str
    """Name of the ConfigMap of the engine it belongs to, for what models share; else empty."""
    component: str
    """What it is of its model: value of the label `labels.APP_COMPONENT`."""
    job: str
    """Name of the Job a pod belongs to; empty for everything else."""
    owners: tuple[tuple[str, str], ...]
    """(name, uid) of each owner that is a MultimodalModel."""
    owner_uids: frozenset[str]
    """Uid of each owner of whatever kind."""
    deleting: bool
    packed: Packed
    _made: dict[Hashable, tuple[Hashable, Any]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def parse(self) -> Mapping[str, Any]:
        """Return the object; it is shared with other callers."""
        read = _remembered if self.packed.size <= _REMEMBERED_BYTES else Packed.read
        parsed: Mapping[str, Any] = read(self.packed)
        return parsed

    def once(
        self, make: Callable[[Mapping[str, Any]], T], beside: Hashable = (), *, name: str = ""
    ) -> T:
        """Return what `make` makes of the object: made once for this version of it.

        `beside`: what else the reading depends on; another one makes it again. `name`: stands for
        `make` where that is another function each time.
        """
        known = self._made.get(name or make)
        if known is None or known[0] != beside:
            known = beside, make(self.parse())
            self._made[name or make] = known
        made: T = known[1]
        return made


Address = tuple[str, str, str]
"""(kind, namespace, name)."""


class Cache:
    """The children of every model; a `mm_operator.cluster.reflector.Sink`.

    `on_change`: called with the key of each model that a change may concern.
    """

    def __init__(self, on_change: Callable[[Key], None] = lambda _key: None) -> None:
        self.on_change = on_change
        self._objects: dict[Address, Cached] = {}
        self._groups: dict[tuple[str, str, str], set[Address]] = defaultdict(set)
        self._bounds = Bounds()

    def __len__(self) -> int:
        return len(self._objects)

    def uids(self) -> set[str]:
        return {item.uid for item in self._objects.values()}

    def find(self, kind: str, namespace: str, name: str) -> Cached | None:
        """Return one object, or None when it does not exist or is not ours."""
        return self._objects.get((kind, namespace, name))

    def holds(self, kind: str, metadata: Mapping[str, Any]) -> bool:
        held = self._objects.get((kind, metadata["namespace"], metadata["name"]))
        return held is not None and held.version >= int(metadata["resourceVersion"])

    def of_model(self, key: Key) -> Iterator[Cached]:
        return self._group("model", key.namespace, key.name)

    def of_engine(self, namespace: str, engine: str) -> Iterator[Cached]:
        """Return the ConfigMap, Jobs and pods of an engine, by the name of its ConfigMap."""
        return self._group("engine", namespace, engine)

    def owned_by(self, uid: str) -> Iterator[Cached]:
        """Return the objects that name a model among their owners, shared ones included."""
        return self._group("owner", "", uid)

    def of_job(self, namespace: str, job: str) -> Iterator[Cached]:
        return self._group("job", namespace, job)

    def engines(self, namespace: str) -> Iterator[str]:
        return (
            value
            for group, place, value in tuple(self._groups)
            if group == "engine" and place == namespace
        )

    def keep(
        self, kind: str, uids: Collection[str], *, namespace: str | None, version: int
    ) -> None:
        """End a list: what is held of its kind and namespace, no newer and not in it, is gone."""
        gone = [
            address
            for address, held in self._objects.items()
            if held.kind == kind
            and namespace in {None, held.namespace}
            and held.version <= version
            and held.uid not in uids
        ]
        for address in gone:
            self._drop(address)

    def put(self, kind: str, item: dict[str, Any]) -> None:
        """Take one listed, added or changed object and notify the models concerned."""
        metadata = item["metadata"]
        held = self._objects.get((kind, metadata["namespace"], metadata["name"]))
        if held is not None and held.version >= int(metadata["resourceVersion"]):
            return  # our own write came back, or an old event after a newer list
        fresh = _cached(kind, item)
        concerned = self.keys_of(held) if held is not None else set()
        self._store(fresh)
        self._notify(concerned | self.keys_of(fresh))

    def put_own(self, kind: str, item: dict[str, Any], *, by: Key | None) -> Cached:
        """Take what the API server answered to a write of ours.

        The models that share the object are notified, but not the one (`by`) whose reconcile wrote
        it: it reconciles again by itself. None: only the list of owners was written, and no model
        is notified unless the answer brought another writer's change, whose event is then no news.
        """
        fresh = _cached(kind, item)
        held = self._objects.get((kind, fresh.namespace, fresh.name))
        if held is not None and held.version >= fresh.version:
            return held
        concerned = self.keys_of(held) if held is not None else set()
        fresh = self._store(fresh)
        if by is not None or held is None or _content(held) != _content(fresh):
            self._notify((concerned | self.keys_of(fresh)) - {by})
        return fresh

    def remove(self, kind: str, item: dict[str, Any]) -> None:
        """Forget a deleted object, unless a newer one took its name meanwhile."""
        metadata = item["metadata"]
        address = (kind, metadata["namespace"], metadata["name"])
        held = self._objects.get(address)
        if held is not None and held.uid == metadata["uid"]:
            self._drop(address)

    def keys_of(self, item: Cached) -> set[Key]:
        """Return the models an object concerns: its own, or all that share it."""
        if item.model:
            return {Key(item.namespace, item.model)}
        sharers = {Key(item.namespace, name) for name, _ in item.owners}
        if item.engine:
            for other in self.of_engine(item.namespace, item.engine):
                sharers |= {Key(item.namespace, name) for name, _ in other.owners}
        return sharers

    def _store(self, fresh: Cached) -> Cached:
        """Hold an object, and return it as it is held: without its payload beyond the bounds."""
        address = (fresh.kind, fresh.namespace, fresh.name)
        if (former := self._objects.get(address)) is not None:
            self._bounds.remove(*_weight(former))
        if not self._bounds.admit(*_weight(fresh)):
            lean = pack(without_payload(fresh.packed.read()))
            fresh = replace(fresh, packed=lean, _made={})
        self._bounds.add(*_weight(fresh))
        if (held := self._objects.get(address)) is not None:
            self._ungroup(address, held)
        self._objects[address] = fresh
        for group in _groups_of(fresh):
            self._groups[group].add(address)
        return fresh

    def _drop(self, address: Address) -> None:
        held = self._objects[address]
        concerned = self.keys_of(held)
        del self._objects[address]
        self._bounds.remove(*_weight(held))
        self._ungroup(address, held)
        self._notify(concerned)

    def _ungroup(self, address: Address, held: Cached) -> None:
        for group in _groups_of(held):
            members = self._groups[group]
            members.discard(address)
            if not members:
                del self._groups[group]

    def _group(self, group: str, namespace: str, value: str) -> Iterator[Cached]:
        addresses = self._groups.get((group, namespace, value), ())
        return (self._objects[address] for address in sorted(addresses))

    def _notify(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.on_change(key)


_remembered = lru_cache(maxsize=_REMEMBERED_OBJECTS)(Packed.read)


def _weight(item: Cached) -> tuple[str, str, list[str], int]:
    return item.kind, item.namespace, [uid for _, uid in item.owners], item.packed.size


def _groups_of(item: Cached) -> Iterator[tuple[str, str, str]]:
    for group, value in (("model", item.model), ("engine", item.engine), ("job", item.job)):
        if value:
            yield group, item.namespace, value
    for _, uid in item.owners:
        yield "owner", "", uid


def _content(item: Cached) -> dict[str, Any]:
    return {name: value for name, value in item.parse().items() if name != "metadata"}


def _cached(kind: str, item: dict[str, Any]) -> Cached:
    metadata = {
        name: value for name, value in item["metadata"].items() if name not in _DROPPED_METADATA
    }
    marks = metadata.get("labels") or {}
    job = marks.get(JOB_NAME_LABEL, "") if kind == POD.kind else ""
    model = marks.get(labels.MODEL, "")
    trimmed = {**item, "kind": kind, "metadata": metadata}
    if kind == POD.kind:
        spec = item.get("spec") or {}
        trimmed["spec"] = {name: spec[name] for name in _POD_SPEC_FIELDS if name in spec}
    return Cached(
        kind=kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        model=model,
        engine="" if model else _engine_of(kind, metadata["name"], job),
        component=sys.intern(marks.get(labels.APP_COMPONENT, "")),
        job=job,
        owner_uids=frozenset(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
        owners=tuple(
            (owner["name"], owner["uid"])
            for owner in metadata.get("ownerReferences") or ()
            if owner["kind"] == labels.KIND and owner["apiVersion"].startswith(f"{labels.GROUP}/")
        ),
        deleting="deletionTimestamp" in metadata,
        packed=pack(trimmed),
    )


def _engine_of(kind: str, name: str, job: str) -> str:
    """Return the engine of a shared object: its Jobs are named `<engine>-<attempt>`."""
    if kind == CONFIG.kind:
        return name
    if kind in {JOB.kind, POD.kind}:
        return (job or name).rpartition("-")[0]
    return ""
