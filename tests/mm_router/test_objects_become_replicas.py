"""EndpointSlices and models as the API server sends them -> what the router knows."""

from typing import Any

from mm_api import labels
from mm_router.assembly import build_router
from mm_router.catalog import Model
from mm_router.demand import ModelSize, Work
from mm_router.discovery import Discovery, read_model, read_slice
from mm_router.fleet import Fleet
from mm_router.settings import Settings
from support.cases import cases
from support.model_documents import adapters, document

COSTS = {"scaling": {"work": {"textTokenSeconds": 0.2, "imageTokenSeconds": 0.3}}}


def endpoint(address: str, **conditions: bool) -> dict[str, Any]:
    return {"addresses": [address], "conditions": conditions}


def slice_of(*endpoints: dict[str, Any], uid: str = "1", namespace: str = "blue") -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "namespace": namespace, "labels": {labels.MODEL: "llava"}},
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": list(endpoints),
    }


def model_of(uid: str = "1", **metadata: Any) -> dict[str, Any]:
    item = document({"engine": {"lora": adapters("de", "fr")}})
    item["metadata"] |= {
        "uid": uid,
        "namespace": "blue",
        "creationTimestamp": "2026-11-24T20:00:00Z",
        **metadata,
    }
    return item


@cases(
    "endpoints expected",
    {
        "ready": ([endpoint("10.0.0.1", ready=True)], {"10.0.0.1:8080"}),
        "nothing-said": ([endpoint("10.0.0.1")], {"10.0.0.1:8080"}),
        "not-ready": ([endpoint("10.0.0.1", ready=False)], set()),
        "ending": ([endpoint("10.0.0.1", ready=True, serving=True, terminating=True)], set()),
        "ipv6": ([endpoint("fd00::1", ready=True)], {"[fd00::1]:8080"}),
        "empty": ([], set()),
    },
)
def test_ready_endpoints_are_replicas(endpoints: list[dict[str, Any]], expected: set[str]) -> None:
    found = read_slice(slice_of(*endpoints))

    assert found is not None
    assert found.model == ("blue", "llava")
    assert {address for _, address in found.replicas} == expected


async def test_a_pod_in_slices_of_both_families_is_one_replica() -> None:
    """A Service of two families has two; a pod that one of them lacks is reached by the other."""
    router = build_router(Settings())
    discovery = Discovery(None, router.fleet, ["blue"])  # type: ignore[arg-type]
    discovery._models.put("MultimodalModel", model_of())

    def of_pod(address: str, uid: str) -> dict[str, Any]:
        return endpoint(address, ready=True) | {"targetRef": {"kind": "Pod", "uid": uid}}

    six = slice_of(of_pod("fd00::1", "a"), of_pod("fd00::2", "b"), uid="6")
    four = slice_of(of_pod("10.0.0.1", "a"), uid="4")
    for one in (four | {"addressType": "IPv4"}, six | {"addressType": "IPv6"}):
        discovery._slices.put("EndpointSlice", one)

    assert replicas(router.fleet) == {"10.0.0.1:8080", "[fd00::2]:8080"}
    await router.close()


@cases(
    "change",
    {
        "no-ports": {"ports": None},
        "another-port": {"ports": [{"name": "metrics", "port": 1}]},
        "no-labels": {"metadata": {"uid": "1", "namespace": "blue"}},
    },
)
def test_slices_of_something_else_are_none(change: dict[str, Any]) -> None:
    assert read_slice(slice_of(endpoint("10.0.0.1")) | change) is None


@cases(
    "spec status size modalities",
    {
        "new": ({}, {}, ModelSize(), ()),
        "empty-plan": ({}, {"plan": {}}, ModelSize(), ()),
        "features": ({"vision": {"featureCacheBytes": 1}}, COSTS, ModelSize(0, 0, 1.5, 0.5), ()),
        "keys": ({"engine": {"kvCache": {"reuse": True}}}, COSTS, ModelSize(0, 0, 1.5, 1.5), ()),
        "planned": (
            {},
            {
                "plan": {
                    "limits": {"maxSeqLen": 4096},
                    "featuresPerImage": 576,
                    "inputModalities": ["text", "image", "smell"],
                }
            },
            ModelSize(4096, 576),
            ("text", "image"),
        ),
    },
)
def test_a_plan_says_what_requests_may_hold(
    spec: dict[str, Any], status: dict[str, Any], size: ModelSize, modalities: tuple[str, ...]
) -> None:
    """As the operator has written it; a model that is not planned yet says nothing."""
    model = read_model(model_of() | {"spec": spec, "status": status})

    assert model is not None
    assert (model.size, model.modalities) == (size, modalities)


def test_a_model_has_its_adapters() -> None:
    assert read_model(model_of()) == Model("blue", "llava", ("de", "fr"), 1_795_550_400)
    assert read_model(model_of(deletionTimestamp="2026-11-24T20:00:00Z")) is None


async def test_a_fleet_follows_lists_and_watches() -> None:
    """Slices of a model add up; what a list lacks is gone, in its namespace only."""
    router = build_router(Settings())
    discovery = Discovery(None, router.fleet, ["blue", "green"])  # type: ignore[arg-type]
    slices, models = discovery._slices, discovery._models
    kind = "EndpointSlice"

    models.put("MultimodalModel", model_of())
    slices.put(kind, slice_of(endpoint("10.0.0.1"), uid="1"))
    slices.put(kind, slice_of(endpoint("10.0.0.2"), uid="2"))
    assert replicas(router.fleet) == {"10.0.0.1:8080", "10.0.0.2:8080"}
    assert router.fleet.catalog.resolve("fr").model.name == "llava"

    slices.put(kind, slice_of(endpoint("10.0.0.3"), uid="2"))
    assert replicas(router.fleet) == {"10.0.0.1:8080", "10.0.0.3:8080"}

    slices.keep(kind, [], namespace="green", version=5)
    assert replicas(router.fleet) == {"10.0.0.1:8080", "10.0.0.3:8080"}

    slices.keep(kind, ["2"], namespace="blue", version=6)
    assert replicas(router.fleet) == {"10.0.0.3:8080"}

    slices.remove(kind, slice_of(uid="2"))
    models.remove("MultimodalModel", model_of())
    assert replicas(router.fleet) == set()
    assert list(router.fleet.catalog) == []
    await router.close()


def replicas(fleet: Fleet) -> set[str]:
    found: set[str] = set()
    while visit := fleet.choose(("blue", "llava"), None, Work(1), tried=found):
        found.add(visit.replica)
        visit.end()
    return found


def conditions(**statuses: str) -> dict[str, Any]:
    return {
        "conditions": [
            {"type": kind, **dict(zip(("status", "reason"), one.split("/"), strict=False))}
            for kind, one in statuses.items()
        ]
    }


TO_ZERO = {"minReplicas": 0}


@cases(
    "changes status expected",
    {
        "starts": ({}, conditions(EngineBuilt="True", Degraded="False"), True),
        "starts-first": ({}, conditions(EngineBuilt="True"), True),
        "no-status": ({}, {}, False),
        "is-built": ({}, conditions(EngineBuilt="False/Building"), "Building"),
        "crashes": (
            {},
            conditions(EngineBuilt="True", Degraded="True/PodsCrashing"),
            "PodsCrashing",
        ),
        "node-comes": ({}, conditions(EngineBuilt="True", Degraded="True/PodsUnschedulable"), True),
        "none-wanted": ({"replicas": 0}, conditions(EngineBuilt="True"), False),
        "asleep": ({"replicas": 0, "autoscaling": TO_ZERO}, conditions(EngineBuilt="True"), True),
        "asleep-unmoved": (
            {"replicas": 0, "autoscaling": {**TO_ZERO, "mode": "Recommend"}},
            conditions(EngineBuilt="True"),
            False,
        ),
    },
)
def test_requests_wait_where_a_replica_is_to_be_expected(
    changes: dict[str, Any], status: dict[str, Any], expected: object
) -> None:
    item = model_of() | {"status": {**status, "scaling": {"coldStartSeconds": 41.5}}}
    item["spec"] |= changes
    model = read_model(item)

    assert model is not None
    obstacle = expected if isinstance(expected, str) else ""
    assert (model.may_start, model.obstacle) == (expected is True, obstacle)
    assert model.start_seconds == 41.5
