"""Who may make ConfigMaps with the operator's label may make many: their content is not held."""

import logging
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from mm_api import labels
from mm_operator.cluster.bounds import LIST_PAGE
from mm_operator.cluster.cache import Cache
from mm_operator.cluster.deployments import claim_state, deployment_state
from mm_operator.cluster.keys import Key
from mm_operator.cluster.resources import CONFIG, DEPLOYMENT, JOB
from support.cases import cases

OWNER = {"apiVersion": f"{labels.GROUP}/v1alpha1", "kind": labels.KIND, "name": "m", "uid": "u"}


def config(name: str, size: int, *owners: dict[str, Any], namespace: str = "bad") -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "resourceVersion": "7",
        "labels": {labels.APP_MANAGED_BY: labels.MANAGED_BY_VALUE, labels.MODEL: "m"},
        "ownerReferences": list(owners),
    }
    return {"metadata": metadata, "data": {"plan.json": "x" * size}}


def held(cache: Cache, name: str, namespace: str = "bad") -> bool:
    found = cache.find(CONFIG.kind, namespace, name)
    return "data" in found.parse()


@cases(
    "size owners",
    {"of-1-MiB-without-an-owner": (1 << 20, []), "of-200-kB-that-name-a-model": (200_000, [OWNER])},
)
def test_250_config_maps_take_a_few_megabytes(size: int, owners: list[dict[str, Any]]) -> None:
    """They are known by name, owner and version; another namespace's are held as ever."""
    cache = Cache()
    cache.put(CONFIG.kind, config("well", 30_000, OWNER, namespace="good"))
    tracemalloc.start()
    try:
        for number in range(250):
            cache.put(CONFIG.kind, config(f"c{number}", size, *owners))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    cache.put(CONFIG.kind, config("more", 30_000, OWNER, namespace="good"))

    assert taken < 8 << 20
    assert len(list(cache.of_model(Key("bad", "m")))) == 250
    assert (held(cache, "well", "good"), held(cache, "more", "good")) == (True, True)


def test_objects_of_a_thousand_models_are_held() -> None:
    cache = Cache()
    for number in range(1000):
        owner = {**OWNER, "uid": f"u{number}"}
        for part in ("plan", "serving", "facts"):
            cache.put(CONFIG.kind, config(f"{part}-{number}", 30_000, owner))

    assert all(held(cache, f"{part}-{number}") for part in ("plan", "facts") for number in (0, 999))


def test_what_3000_models_share_is_held() -> None:
    """Their owner references are longer than any payload may be, and do not count as one."""
    cache = Cache()
    owners = [{**OWNER, "name": f"model-{n:04}", "uid": f"{n:036}"} for n in range(3000)]
    cache.put(CONFIG.kind, config("engine", 30_000, *owners))
    cache.put(CONFIG.kind, config("long", 300_000, *owners))

    assert (held(cache, "engine"), held(cache, "long")) == (True, False)


def test_room_comes_back_when_objects_go() -> None:
    """Who deletes the strange objects has the own ones held again as they change."""
    cache = Cache()
    for number in range(30):
        cache.put(CONFIG.kind, config(f"c{number}", 200_000, OWNER))
    late = config("late", 200_000, OWNER)
    cache.put(CONFIG.kind, late)
    assert not held(cache, "late")

    for number in range(30):
        cache.remove(CONFIG.kind, config(f"c{number}", 1))
    late["metadata"]["resourceVersion"] = "8"
    cache.put(CONFIG.kind, late)

    assert held(cache, "late")


def test_a_job_without_an_owner_is_held_without_its_spec() -> None:
    """Every kind that is watched has the bound of one object."""
    job = config("j", 1)
    job["spec"] = {"template": "x" * 300_000}
    cache = Cache()
    cache.put(JOB.kind, job)
    found = cache.find(JOB.kind, "bad", "j")

    assert len(found.packed.text()) < 2000


def test_it_is_reported_once_for_a_namespace(caplog: pytest.LogCaptureFixture) -> None:
    """A line for each object would be a way to fill the log."""
    caplog.set_level(logging.WARNING, logger="mm_operator.cluster.bounds")
    cache = Cache()
    for number in range(20):
        cache.put(CONFIG.kind, config(f"c{number}", 1 << 20))

    assert caplog.text.count("has the operator's label and more content") == 1


def test_config_maps_are_listed_in_small_pages() -> None:
    assert LIST_PAGE[CONFIG.kind] <= 25


@pytest.mark.parametrize("state", [deployment_state, claim_state], ids=["deployment", "claim"])
def test_what_is_not_held_is_absent(state: Callable[[dict[str, Any]], object]) -> None:
    """A reconcile of its own model continues, and applies the object again."""
    cache = Cache()
    strange = {**config("m", 0), "spec": {"template": {"x": "x" * 100_000}}}
    cache.put(DEPLOYMENT.kind, strange)
    found = cache.find(DEPLOYMENT.kind, "bad", "m")
    assert state(found.parse()) is None
