"""The cache of children: what it keeps, whom it reports, what it forgets."""

from typing import Any

import pytest

from mm_api import labels
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.keys import Key
from support.cases import cases


def item(name: str, version: int, **marks: Any) -> dict[str, Any]:
    owners = [
        {
            "apiVersion": labels.API_VERSION,
            "kind": labels.KIND,
            "name": owner,
            "uid": f"{owner}-uid",
        }
        for owner in marks.pop("owners", ())
    ]
    return {
        "metadata": {
            "namespace": "demo",
            "name": name,
            "uid": marks.pop("uid", f"{name}-uid"),
            "resourceVersion": str(version),
            "labels": {labels.MODEL: marks.pop("model")} if "model" in marks else {},
            "ownerReferences": owners,
            "managedFields": [{"manager": "another"}],
        },
        **marks,
    }


@pytest.fixture
def reported() -> list[Key]:
    return []


@pytest.fixture
def cache(reported: list[Key]) -> Cache:
    return Cache(on_change=reported.append)


def test_own_writes_start_no_reconciliation(cache: Cache, reported: list[Key]) -> None:
    key = Key("demo", "llava")
    cache.put_own("ConfigMap", item("a", 5, model="llava"), by=key)
    cache.put("ConfigMap", item("a", 5, model="llava"))

    assert reported == []
    assert cache.find("ConfigMap", "demo", "a") is not None


def test_old_events_lose(cache: Cache, reported: list[Key]) -> None:
    cache.put("ConfigMap", item("a", 7, model="llava", data={"x": "new"}))
    cache.put("ConfigMap", item("a", 6, model="llava", data={"x": "old"}))

    held = cache.find("ConfigMap", "demo", "a")
    assert held.parse()["data"] == {"x": "new"}
    assert reported == [Key("demo", "llava")]


def test_sharers_are_reported(cache: Cache, reported: list[Key]) -> None:
    cache.put("ConfigMap", item("engine-1", 1, owners=["one", "two"]))
    assert set(reported) == {Key("demo", "one"), Key("demo", "two")}
    reported.clear()

    cache.put_own("ConfigMap", item("engine-1", 2, owners=["one", "two"]), by=Key("demo", "one"))

    assert reported == [Key("demo", "two")]


@cases(
    "active expected",
    {
        "the-owners-alone": (1, set()),
        "with-a-change-of-others": (0, {Key("demo", "one"), Key("demo", "two")}),
    },
)
def test_a_written_owner_is_no_news(
    cache: Cache, reported: list[Key], active: int, expected: set[Key]
) -> None:
    """What changed meanwhile is: its own event is older than the answer."""
    cache.put("Job", item("engine-1", 1, owners=["one"], status={"active": 1}))
    reported.clear()

    cache.put_own(
        "Job", item("engine-1", 3, owners=["one", "two"], status={"active": active}), by=None
    )

    assert set(reported) == expected


def test_dropped_owners_are_reported(cache: Cache, reported: list[Key]) -> None:
    cache.put("ConfigMap", item("engine-1", 1, owners=["one", "two"]))
    reported.clear()

    cache.put("ConfigMap", item("engine-1", 2, owners=["one"]))

    assert set(reported) == {Key("demo", "one"), Key("demo", "two")}


def test_jobs_of_an_engine_concern_its_owners(cache: Cache, reported: list[Key]) -> None:
    """A build Job names no model: the owners of its engine's ConfigMap are reported."""
    cache.put("ConfigMap", item("engine-1", 1, owners=["one"]))
    reported.clear()

    cache.put("Job", item("engine-1-1", 2))

    assert reported == [Key("demo", "one")]


def test_a_list_replaces_everything_of_its_kind(cache: Cache, reported: list[Key]) -> None:
    cache.put("ConfigMap", item("a", 1, model="llava"))
    cache.put("Service", item("a", 2, model="llava"))
    reported.clear()

    cache.keep("ConfigMap", set(), namespace=None, version=2)

    assert cache.find("ConfigMap", "demo", "a") is None
    assert cache.find("Service", "demo", "a") is not None
    assert reported == [Key("demo", "llava")]


@cases(
    "namespace version stays",
    {
        "of-its-namespace": ("demo", 2, False),
        "of-another-namespace": ("other", 2, True),
        "older-than-a-write-of-ours": ("demo", 1, True),
    },
)
def test_a_list_speaks_for_its_own_namespace_and_time(
    cache: Cache, namespace: str, version: int, *, stays: bool
) -> None:
    """An operator of two namespaces lists each; what is newer than a list cannot be in it."""
    cache.put("ConfigMap", item("a", 2, model="llava"))

    cache.keep("ConfigMap", set(), namespace=namespace, version=version)

    assert stays == (cache.find("ConfigMap", "demo", "a") is not None)


def test_late_deletes_spare_the_successor(cache: Cache) -> None:
    cache.put("ConfigMap", item("a", 9, uid="second"))

    cache.remove("ConfigMap", item("a", 8, uid="first"))

    assert cache.find("ConfigMap", "demo", "a") is not None


def test_objects_are_trimmed(cache: Cache) -> None:
    cache.put("Pod", item("p", 1, spec={"nodeName": "n", "containers": [1]}, status={"phase": "x"}))
    held = cache.find("Pod", "demo", "p")

    assert held.parse()["spec"] == {"nodeName": "n"}
    assert "managedFields" not in held.parse()["metadata"]
