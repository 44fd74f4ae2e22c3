"""A pod that cannot load its engine leads to a reported rebuild, a second one to a person."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mm_operator.model import PodDamage, Ref
from mm_operator.plan.records import BUILT_AT_KEY, DAMAGE_KEY, RESULT_KEY
from support.cases import cases
from support.imagined_cluster import ImaginedCluster
from support.models import tiny_facts

DAMAGE = "llm/model.safetensors is damaged: sha256 a; expected b."
LATER = ImaginedCluster().now + timedelta(days=1)
"""Than any build of these tests."""


@pytest.fixture
def cluster() -> ImaginedCluster:
    cluster = ImaginedCluster()
    for name in ("one", "two"):
        cluster.apply(name)
        cluster.inspected(tiny_facts())
    cluster.built()
    for name in ("one", "two"):
        cluster.pods_ready(name)
    cluster.wait(60)
    return cluster


def engine(cluster: ImaginedCluster) -> dict[str, str]:
    (name,) = [name for name in cluster.names("ConfigMap") if name.startswith("engine-")]
    data: dict[str, str] = cluster.objects[Ref("ConfigMap", name)]["data"]
    return data


def test_a_damaged_engine_is_built_again(cluster: ImaginedCluster) -> None:
    """The record is taken back and a Job starts whose name is not that of the former one."""
    before = cluster.objects[Ref("Deployment", "two")]
    cluster.cannot_load("one", DAMAGE)
    message = cluster.message("one", "EngineBuilt")
    assert RESULT_KEY not in engine(cluster)
    assert cluster.job("engine-").endswith("-2")
    assert f"it is built again because: {DAMAGE}" in message
    assert cluster.conditions("two")["Ready"] == "True ReplicasAvailable"
    assert cluster.objects[Ref("Deployment", "two")] == before
    reported = {cluster.conditions(name)["EngineBuilt"] for name in ("one", "two")}
    assert reported == {"False BuildPending", "False WaitingForBuild"}
    cluster.wait(30)
    cluster.built()
    cluster.wait(30)  # the pod waits in its back-off: what it said before is no second damage
    assert cluster.conditions("one")["EngineBuilt"] == "True BuildSucceeded"
    cluster.pods_ready("one")
    assert cluster.conditions("one")["EngineBuilt"] == "True BuildSucceeded"
    assert cluster.conditions("one")["Degraded"] == "False AsExpected"
    assert cluster.message("one", "EngineBuilt") == (
        f"the engine is built; the one before it was damaged: {DAMAGE}"
    )
    assert {RESULT_KEY, BUILT_AT_KEY, DAMAGE_KEY} <= engine(cluster).keys()
    assert cluster.open_jobs() == []


def test_pods_that_refused_go_once_the_engine_is_complete(cluster: ImaginedCluster) -> None:
    """They would wait in a back-off of minutes; before the rebuild they stay to be read."""
    cluster.cannot_load("one", DAMAGE)
    before, others = cluster.pods["one"], cluster.pods["two"]
    cluster.wait(30)
    during = cluster.pods["one"]
    cluster.built()
    assert (before, ()) == (during, cluster.pods["one"])
    assert (len(before), cluster.pods["two"]) == (1, others)


@cases(
    "changes",
    {
        "serves": {"ready": True},
        "goes-already": {"terminating": True},
        "of-another-revision": {"serving_hash": "former"},
        "well": {"damage": None},
        "refuses-the-new-one": {"damage": PodDamage(DAMAGE, LATER)},
    },
)
def test_other_pods_stay(cluster: ImaginedCluster, changes: dict[str, Any]) -> None:
    cluster.cannot_load("one", DAMAGE)
    cluster.wait(30)
    pods = tuple(replace(pod, **changes) for pod in cluster.pods["one"])
    cluster.pods["one"] = pods
    cluster.built()
    assert pods == cluster.pods["one"]


def test_a_second_damage_is_reported_and_not_built(cluster: ImaginedCluster) -> None:
    """A store that damages engines is a person's matter; the ConfigMap's deletion builds again."""
    cluster.cannot_load("one", DAMAGE)
    cluster.wait(30)
    cluster.built()
    cluster.wait(30)
    cluster.cannot_load("one", DAMAGE)
    (name,) = [name for name in cluster.names("ConfigMap") if name.startswith("engine-")]
    assert cluster.conditions("one")["EngineBuilt"] == "False EngineCorrupt"
    assert cluster.conditions("one")["Degraded"] == "True EngineCorrupt"
    assert cluster.open_jobs() == []
    assert f"delete ConfigMap {name}" in cluster.message("one", "EngineBuilt")
    assert cluster.conditions("two")["EngineBuilt"] == "True BuildSucceeded"

    cluster.remove(Ref("ConfigMap", name))

    assert len(cluster.open_jobs()) == 1


def test_a_damage_after_a_quiet_day_is_built_again(cluster: ImaginedCluster) -> None:
    """Two damages that have nothing to do with each other lead to two rebuilds."""
    for _ in range(2):
        cluster.cannot_load("one", DAMAGE)
        assert len(cluster.open_jobs()) == 1
        cluster.wait(30)
        cluster.built()
        cluster.pods_ready("one")
        cluster.wait(24 * 3600)
    assert cluster.conditions("one")["EngineBuilt"] == "True BuildSucceeded"


def test_pods_of_another_engine_do_not_count(cluster: ImaginedCluster) -> None:
    pods = cluster.pods["one"]
    cluster.cannot_load("one", DAMAGE)
    cluster.wait(30)
    cluster.built()
    cluster.wait(30)
    cluster.cannot_load("one", DAMAGE)
    stale = [replace(pod, serving_hash="former") for pod in cluster.pods["one"]]
    cluster.pods["one"] = (*pods, *stale)
    cluster.wait(1)
    assert cluster.conditions("one")["EngineBuilt"] == "True BuildSucceeded"


def test_a_pod_that_expects_the_former_engine_is_no_damage(cluster: ImaginedCluster) -> None:
    """A rebuilt engine has another manifest, which a mounted ConfigMap reports a minute late."""
    former, fresh = "ab" * 32, "cd" * 32
    cluster.cannot_load("one", DAMAGE)
    cluster.wait(30)
    cluster.built(manifest_sha256=fresh)
    cluster.wait(30)
    before = cluster.objects[Ref("Deployment", "two")]
    other = "manifest.json is not the manifest of the recorded build: sha256 {}; expected {}."
    cluster.cannot_load("two", other.format(fresh, former))
    assert cluster.conditions("two")["EngineBuilt"] == "True BuildSucceeded"
    assert cluster.pods["two"] == ()  # another one reads the present ConfigMap
    assert cluster.objects[Ref("Deployment", "two")] == before
    assert cluster.open_jobs() == []


def test_an_engine_that_was_replaced_is_verified_by_a_job(cluster: ImaginedCluster) -> None:
    """The store holds what no build of this operator recorded: that is as good as damaged."""
    other = "manifest.json is not the manifest of the recorded build: sha256 {}; expected {}."
    cluster.cannot_load("two", other.format("ef" * 32, "ab" * 32))
    assert cluster.conditions("two")["EngineBuilt"] != "True BuildSucceeded"
    assert len(cluster.open_jobs()) == 1
