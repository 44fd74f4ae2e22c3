"""Whatever happens in whatever order, decisions come to rest, and a second look changes nothing."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from mm_api.documents.build_result import BuildFailure, BuildReason
from mm_operator.model import JobPhase, PodEnd
from support.imagined_cluster import ImaginedCluster
from support.models import DIGEST, tiny_facts

Action = Callable[[ImaginedCluster], None]

_OPEN = {JobPhase.PENDING, JobPhase.RUNNING}


def _open(cluster: ImaginedCluster, part: str) -> str | None:
    names = (name for name, job in sorted(cluster.jobs.items()) if part in name)
    return next((name for name in names if cluster.jobs[name].phase in _OPEN), None)


def _inspected(digest: str) -> Action:
    def act(cluster: ImaginedCluster) -> None:
        for name in [name for name in cluster.jobs if "inspect" in name]:
            if name in cluster.jobs and _open(cluster, name):
                facts = tiny_facts(source_digest=digest)
                cluster.end(name, _well(facts_text(facts)))

    return act


def facts_text(facts: object) -> str:
    return f'{{"facts": {facts.to_json()}}}'  # type: ignore[attr-defined]


def _well(message: str) -> PodEnd:
    return PodEnd("pod", succeeded=True, exit_code=0, message=message)


def _built(cluster: ImaginedCluster) -> None:
    name = _open(cluster, "engine-")
    if name:
        cluster.built(name)


def _source_changed(cluster: ImaginedCluster) -> None:
    name = _open(cluster, "engine-")
    if name:
        cluster.broke(
            BuildFailure(
                reason=BuildReason.SOURCE_CHANGED,
                step="fetch",
                exit_code=4,
                message="changed",
                retryable=False,
            ),
            name,
        )


def _killed(cluster: ImaginedCluster) -> None:
    for part in ("engine-", "inspect"):
        name = _open(cluster, part)
        if name:
            cluster.end(name, PodEnd("pod", succeeded=False, exit_code=137, reason="OOMKilled"))


def _ready(cluster: ImaginedCluster) -> None:
    for name in cluster.names("Deployment"):
        cluster.pods_ready(name)


def _apply(name: str, batch: int, replicas: int) -> Action:
    changes = {"engine": {"maxBatchSize": batch}, "replicas": replicas}
    return lambda cluster: cluster.apply(name, changes)


def _delete(name: str) -> Action:
    def act(cluster: ImaginedCluster) -> None:
        if name in cluster.models:
            cluster.delete(name)

    return act


_NAMES = st.sampled_from(["alpha", "beta"])
ACTIONS = st.one_of(
    st.builds(_apply, _NAMES, st.sampled_from([4, 8]), st.integers(0, 2)),
    st.builds(_delete, _NAMES),
    st.builds(_inspected, st.sampled_from([DIGEST, DIGEST.replace("0", "f")])),
    st.sampled_from([_built, _source_changed, _killed, _ready]),
    st.sampled_from([31.0, 61.0, 4000.0]).map(
        lambda seconds: lambda cluster: cluster.wait(seconds)
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, max_size=14))
def test_any_order_of_events_comes_to_rest(actions: list[Action]) -> None:
    cluster = ImaginedCluster()
    for action in actions:
        action(cluster)
        assert [name for name in sorted(cluster.models) if cluster.reconcile(name)] == []


@settings(max_examples=30, deadline=None)
@given(st.lists(ACTIONS, max_size=14))
def test_nothing_is_left_when_every_model_is_deleted(actions: list[Action]) -> None:
    cluster = ImaginedCluster()
    for action in actions:
        action(cluster)
    for name in sorted(cluster.models):
        cluster.delete(name)
    assert cluster.objects == {}
