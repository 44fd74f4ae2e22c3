"""A revision's startup probe follows measured starts, and no measurement rolls anything out."""

from typing import Any

import pytest

from mm_operator.model import Ref
from mm_operator.plan.starts import LEAST_START_SECONDS, probe_seconds
from support.imagined_cluster import ImaginedCluster
from support.models import tiny_facts

DEPLOYMENT = Ref("Deployment", "llava")


@pytest.fixture
def cluster() -> ImaginedCluster:
    """Return a namespace with a model whose first pods took 200 s to load."""
    made = ImaginedCluster()
    made.apply("llava")
    made.inspected(tiny_facts())
    made.built()
    assert _probe(made) == LEAST_START_SECONDS
    made.pods_ready("llava", load_seconds=200.0)
    return made


def _template(cluster: ImaginedCluster) -> dict[str, Any]:
    template: dict[str, Any] = cluster.objects[DEPLOYMENT]["spec"]["template"]
    return template


def _probe(cluster: ImaginedCluster) -> int | None:
    return probe_seconds(_template(cluster))


def _measured(cluster: ImaginedCluster) -> float | None:
    start = cluster.models["llava"].status.get("start")
    return start["loadSeconds"] if start else None


def test_a_measured_start_changes_no_pod(cluster: ImaginedCluster) -> None:
    before = _template(cluster)
    generation = cluster.rolled["llava"].generation
    assert _measured(cluster) == 200.0
    cluster.pods_ready("llava", load_seconds=900.0)
    assert _measured(cluster) == 900.0
    cluster.pods_ready("llava", load_seconds=3.0)
    assert _measured(cluster) == 900.0
    assert cluster.models["llava"].status["start"]["slowestPhase"] == "Load"
    assert cluster.models["llava"].status["start"]["slowestPhaseSeconds"] == 900.0
    assert (before, generation) == (_template(cluster), cluster.rolled["llava"].generation)


def test_the_next_revision_gets_it(cluster: ImaginedCluster) -> None:
    """A rollout for another reason takes five times the slowest start along."""
    cluster.apply("llava", {"runtime": {"image": "example.org/runtime:2"}})
    assert _probe(cluster) == 1000
    cluster.pods_ready("llava", load_seconds=900.0)
    assert _probe(cluster) == 1000
    cluster.apply("llava", {"runtime": {"image": "example.org/runtime:3"}})
    assert _probe(cluster) == 4500


def test_other_engines_start_again(cluster: ImaginedCluster) -> None:
    """What one engine took says nothing of another: its first revision goes by planned bytes."""
    cluster.apply("llava", {"engine": {"maxBatchSize": 3}})
    assert _probe(cluster) == LEAST_START_SECONDS
    assert _measured(cluster) is None
    cluster.built()
    assert (_probe(cluster), _measured(cluster)) == (LEAST_START_SECONDS, None)


@pytest.mark.parametrize("kind", ["ConfigMap", "Deployment"])
def test_a_deleted_object_comes_back_with_it(cluster: ImaginedCluster, kind: str) -> None:
    """The revision's record and the Deployment each know the number that the pods have."""
    before = _template(cluster)
    name = before["spec"]["volumes"][1]["configMap"]["name"] if kind == "ConfigMap" else "llava"
    cluster.remove(Ref(kind, name))
    assert before == _template(cluster)


def test_a_second_inspection_forgets_nothing(cluster: ImaginedCluster) -> None:
    """While there is no plan what was measured stays known: the next plan may want the engine."""
    cluster.apply("llava", {"model": {"allowPickle": True}})
    assert cluster.plans["llava"].build_plan is None
    assert _measured(cluster) == 200.0
