"""The custom resources as last seen, fed by kopf's watch alone.

kopf never reports an object that was deleted while its watch was down; `keep`, at the end of every
resync's list of metadata, forgets those.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from mm_api import labels
from mm_api.conditions import ConditionType
from mm_operator.cluster.keys import Key
from mm_operator.cluster.packed import Packed, pack
from mm_operator.status.series import Sample, samples_of

_MOST_COMPARISON = 8 * 1024
"""Characters: four times the longest report, as of the reports of pods."""

_MOST_COMMAND = 64
"""A word and the hash of a revision."""


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Who wrote a field, as the API server noted it; none is noted for a scale subresource."""

    manager: str = ""
    at: float = 0.0
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """One MultimodalModel: identity, spec as JSON text, status packed."""

    key: Key
    uid: str
    generation: int
    observed: bool
    """Its status is of this generation."""
    version: int
    created: datetime
    deleting: bool
    shares_store: bool
    claims: tuple[str, ...]
    served_claim: str
    """That of them which its serving pods attach, too; empty: none."""
    scales: bool
    """Its replicas follow metrics, or what they would be is shown."""
    ready: bool
    waiting: bool
    """Another model builds the engine it needs."""
    spec: bytes
    comparison: str
    """Text of the annotation of `mmctl compare`; empty: there is none."""
    command: str
    """Text of the annotation of `mmctl rollout`; empty: there is none."""
    status: Packed
    replicas_set_by: FieldManager
    samples: tuple[Sample, ...]


class ModelCache:
    """Every MultimodalModel that the operator serves.

    `on_spec_change`: called instead of `on_change` when a user changed or made it.
    """

    def __init__(
        self,
        on_change: Callable[[Key], None] = lambda _key: None,
        on_spec_change: Callable[[Key], None] | None = None,
    ) -> None:
        self.on_change = on_change
        self.on_removal: Callable[[Key], None] = lambda _key: None
        self._on_spec_change = on_spec_change or on_change
        self._records: dict[Key, ModelRecord] = {}
        self._sharers: dict[str, set[str]] = defaultdict(set)
        self._leavings: Counter[str] = Counter()
        self._holders: dict[tuple[str, str], set[str]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def __iter__(self) -> Iterator[Key]:
        return iter(tuple(self._records))

    def unobserved(self) -> list[tuple[Key, bool]]:
        """Return each model, and whether its status is of an earlier spec or missing."""
        return [(key, not record.observed) for key, record in self._records.items()]

    def ready(self) -> int:
        return sum(record.ready for record in self._records.values())

    def samples(self, serves: Callable[[str], bool] = lambda _namespace: True) -> Iterator[Sample]:
        for record in self._records.values():
            if serves(record.key.namespace):
                yield from record.samples

    def waiting(self) -> int:
        return sum(record.waiting for record in self._records.values())

    def find(self, key: Key) -> ModelRecord | None:
        return self._records.get(key)

    def stays(self, key: Key, uid: str) -> bool:
        """Return whether a model of this uid is here and not being deleted."""
        held = self._records.get(key)
        return held is not None and held.uid == uid and not held.deleting

    def leavings(self, namespace: str) -> int:
        """Return how often a model of a namespace ceased to share the operator-made store."""
        return self._leavings[namespace]

    def store_leavers(self, namespace: str, owners: frozenset[str]) -> frozenset[str]:
        """Return those of the owners of a namespace's store that do not share it now."""
        return owners - self._sharers[namespace]

    def claim_holders(self, namespace: str, claim: str) -> tuple[str, ...]:
        """Return the models whose serving pods attach a claim of the user's, by name."""
        return tuple(sorted(self._holders.get((namespace, claim), ())))

    def put(self, item: dict[str, Any], *, own: bool = False) -> None:
        """Take an added or changed object; `own` for the answer to a write of a status of ours.

        Such an answer holds what users have changed meanwhile, too. The event of their change is
        no news after it, so the answer announces it.
        """
        metadata = item["metadata"]
        held = self._records.get(Key(metadata["namespace"], metadata["name"]))
        if held is not None and held.version >= int(metadata["resourceVersion"]):
            return  # read no further: kopf lists every model again when its watch expired
        fresh = _record(item)
        self._records[fresh.key] = fresh
        self._share(held, fresh)
        self._hold(held, fresh)
        if held is None or held.generation != fresh.generation:
            self._on_spec_change(fresh.key)
        elif not own:
            self.on_change(fresh.key)

    def remove(self, key: Key, uid: str) -> None:
        """Forget a deleted object, unless another one took its name meanwhile."""
        held = self._records.get(key)
        if held is None or held.uid != uid:
            return
        del self._records[key]
        self._share(held, None)
        self._hold(held, None)
        self.on_removal(key)
        self.on_change(key)

    def is_current(self, metadata: Mapping[str, Any]) -> bool:
        held = self._records.get(Key(metadata["namespace"], metadata["name"]))
        return held is not None and held.version >= int(metadata["resourceVersion"])

    def holds(self, uids: Collection[str]) -> bool:
        return {record.uid for record in self._records.values()}.issuperset(uids)

    def keep(self, uids: Collection[str], version: int) -> None:
        """End a list of the given version: what is no newer and not among its uids is gone."""
        for held in tuple(self._records.values()):
            if held.uid not in uids and held.version <= version:
                self.remove(held.key, held.uid)

    def _share(self, held: ModelRecord | None, fresh: ModelRecord | None) -> None:
        before, after = _sharer(held), _sharer(fresh)
        if before == after:
            return
        if before is not None:
            namespace, uid = before
            self._sharers[namespace].discard(uid)
            self._leavings[namespace] += 1
        if after is not None:
            namespace, uid = after
            self._sharers[namespace].add(uid)

    def _hold(self, held: ModelRecord | None, fresh: ModelRecord | None) -> None:
        if held is not None and held.served_claim:
            place = (held.key.namespace, held.served_claim)
            self._holders[place].discard(held.key.name)
            if not self._holders[place]:
                del self._holders[place]
        if fresh is not None and fresh.served_claim:
            self._holders[fresh.key.namespace, fresh.served_claim].add(fresh.key.name)


def _sharer(record: ModelRecord | None) -> tuple[str, str] | None:
    if record is None or record.deleting or not record.shares_store:
        return None
    return record.key.namespace, record.uid


def _record(item: dict[str, Any]) -> ModelRecord:
    metadata, spec = item["metadata"], item.get("spec") or {}
    status = item.get("status") or {}
    store = _part(spec, "build", "store")
    return ModelRecord(
        key=Key(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        generation=metadata["generation"],
        observed=status.get("observedGeneration") == metadata["generation"],
        version=int(metadata["resourceVersion"]),
        created=datetime.fromisoformat(metadata["creationTimestamp"]),
        deleting="deletionTimestamp" in metadata,
        shares_store=not store.get("persistentVolumeClaim"),
        claims=_claims(spec),
        # Engines of a bucket are pulled to the node's disk.
        served_claim="" if store.get("s3") else _claim_name(store),
        scales=spec.get("autoscaling") is not None
        and _part(spec, "autoscaling").get("mode") != "Off",
        ready=any(
            condition.get("type") == ConditionType.READY and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        ),
        waiting=(status.get("build") or {}).get("phase") == "Waiting",
        # Copied: orjson keeps the buffer it wrote into, some 4 kB for a text of 1 kB.
        spec=bytes(memoryview(orjson.dumps(spec))),
        comparison=_annotation(metadata, labels.COMPARISON, _MOST_COMPARISON),
        command=_annotation(metadata, labels.ROLLOUT, _MOST_COMMAND),
        status=pack(status),
        replicas_set_by=_field_manager(metadata.get("managedFields") or ()),
        samples=tuple(samples_of(metadata["namespace"], metadata["name"], spec, status)),
    )


def _annotation(metadata: Mapping[str, Any], name: str, most: int) -> str:
    text = str((metadata.get("annotations") or {}).get(name, ""))
    return text if len(text) <= most else ""


def _claims(spec: Mapping[str, Any]) -> tuple[str, ...]:
    source = _part(spec, "model", "source")
    adapters = [_part(one, "source") for one in _part(spec, "engine").get("lora") or ()]
    places = (_part(spec, "build", "store"), source, *adapters)
    return tuple(sorted({*map(_claim_name, places)} - {""}))


def _claim_name(place: Mapping[str, Any]) -> str:
    return str(_part(place, "persistentVolumeClaim").get("claimName", ""))


def _part(item: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        item = item.get(name) or {}
    return item


def _field_manager(managed: Sequence[Mapping[str, Any]]) -> FieldManager:
    """Return who set spec.replicas: the owner whose entry is the youngest."""
    owners = [
        FieldManager(
            str(entry.get("manager", "")), datetime.fromisoformat(entry["time"]).timestamp()
        )
        for entry in managed
        if entry.get("time") and "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    return max(owners, key=lambda owner: owner.at, default=FieldManager())
