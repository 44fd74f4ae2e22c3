"""What a reconcile reads does not grow with its neighbours, and nothing is read twice."""

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

import pytest

from mm_operator.children.all import build
from mm_operator.children.metadata import FORMER_OWNERS
from mm_operator.cluster.cache import Cache, Cached
from mm_operator.cluster.claims import ClaimModes
from mm_operator.cluster.keys import Key
from mm_operator.cluster.models import ModelCache
from mm_operator.cluster.nodes import NodeCache
from mm_operator.cluster.observe import Observer
from mm_operator.cluster.pod_diagnostics import PodDiagnostics
from mm_operator.model import Ref
from mm_operator.plan import decide
from support.imagined_cluster import ImaginedCluster
from support.model_documents import document
from support.models import EPOCH, SETTINGS, tiny_facts

NAME = "llava"
SWEPT = {"build": {"store": {"gcAfter": "1h"}}}
NO_REQUEST = cast("Any", None)

Reads = Counter[tuple[str, str, int]]
"""Kind, name and version of an object -> how often its text was parsed."""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    counted: Reads = Counter()
    parse = Cached.parse

    def counting(item: Cached) -> Mapping[str, Any]:
        counted[item.kind, item.name, item.version] += 1
        return parse(item)

    monkeypatch.setattr(Cached, "parse", counting)
    return counted


class Crowd:
    """A model with its objects and neighbours of its namespace and store, as caches hold them."""

    def __init__(self, neighbours: int) -> None:
        self._version = 0
        self.cache, self.models = Cache(), ModelCache()
        imagined = ImaginedCluster()
        imagined.apply(NAME, SWEPT)
        imagined.inspected(tiny_facts())
        imagined.built()
        self._model(NAME, imagined.models[NAME].uid, dict(imagined.models[NAME].status))
        self.manifests = imagined.objects
        for ref in imagined.objects:
            if ref.kind == "PersistentVolumeClaim" or ref.name.startswith("engine-"):
                owners = imagined.objects[ref]["metadata"]["ownerReferences"]
                owners += [_renamed(owners[0], f"x{number:04}") for number in range(neighbours)]
        for ref, manifest in imagined.objects.items():
            self.put(ref, manifest)
        engine = next(ref for ref in imagined.objects if ref.name.startswith("engine-"))
        for number in range(neighbours):
            self._neighbour(f"x{number:04}", imagined.objects[engine])
        diagnostics = PodDiagnostics(NO_REQUEST, self.cache)
        self.observer = Observer(
            self.models,
            self.cache,
            NodeCache(on_change=lambda: None),
            diagnostics=diagnostics,
            claims=ClaimModes(NO_REQUEST),
            settings=SETTINGS,
        )

    def put(self, ref: Ref, manifest: Mapping[str, Any]) -> None:
        self._version += 1
        item = deepcopy(dict(manifest))
        item["metadata"] |= {
            "resourceVersion": str(self._version),
            "creationTimestamp": EPOCH.isoformat(),
        }
        item["metadata"].setdefault("uid", f"uid-of-{ref.kind}-{ref.name}")
        self.cache.put(ref.kind, item)

    def _model(self, name: str, uid: str, status: Mapping[str, Any]) -> None:
        self._version += 1
        item = {**document(SWEPT), "status": status}
        item["metadata"] = {
            "namespace": "demo",
            "name": name,
            "uid": uid,
            "generation": 1,
            "resourceVersion": str(self._version),
            "creationTimestamp": EPOCH.isoformat(),
        }
        self.models.put(item)

    def _neighbour(self, name: str, engine: Mapping[str, Any]) -> None:
        self._model(name, f"uid-of-{name}", {})
        metadata = {
            **engine["metadata"],
            "name": f"engine-{name}",
            "uid": f"uid-of-engine-{name}",
            "ownerReferences": [_renamed(engine["metadata"]["ownerReferences"][0], name)],
        }
        self.put(Ref("ConfigMap", f"engine-{name}"), {**engine, "metadata": metadata})

    def decide(self) -> tuple[dict[str, Any], ...]:
        record = self.models.find(Key("demo", NAME))
        snapshot = self.observer.snapshot(record, EPOCH)
        return build(snapshot, decide(snapshot))


def _renamed(owner: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {**owner, "name": name, "uid": f"uid-of-{name}"}


@pytest.mark.parametrize("neighbours", [10, 1000], ids=["ten-neighbours", "a-thousand"])
def test_a_reconcile_reads_the_objects_of_its_own_model(neighbours: int, reads: Reads) -> None:
    Crowd(0).decide()
    alone = {(kind, name) for kind, name, _ in reads}
    reads.clear()

    Crowd(neighbours).decide()

    assert {(kind, name) for kind, name, _ in reads} == alone
    assert ("Job", f"{NAME}-sweep-1") in alone


def test_what_is_applied_does_not_list_the_neighbours() -> None:
    """A thousand own the same claim and the same engine; a model writes its own name only."""
    metadata = [one["metadata"] for one in Crowd(1000).decide()]

    assert max(len(one["ownerReferences"]) for one in metadata) == 1
    assert [one["name"] for one in metadata if FORMER_OWNERS in one] == []


def test_no_version_is_read_twice(reads: Reads) -> None:
    crowd = Crowd(10)
    for _ in range(3):
        crowd.decide()
    facts = Ref("ConfigMap", f"{NAME}-facts")
    crowd.put(facts, crowd.manifests[facts])
    for _ in range(3):
        crowd.decide()

    assert set(reads.values()) == {1}
    assert sum(name == facts.name for _, name, _ in reads) == len(("before", "changed"))
