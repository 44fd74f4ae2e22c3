"""The lines that the operator logs of a model: begin and end of builds and rollouts, refusals."""

import pytest

from mm_api.documents.build_result import BuildFailure, BuildReason
from mm_operator.status.story import TEXT_LIMIT, story
from support.imagined_cluster import ImaginedCluster
from support.models import tiny_facts

BUILT = [
    "BuildStarted: build started: Job engine-279716112327450d-1, attempt 1",
    "BuildSucceeded: build succeeded after 1.0 s of work",
]
SERVED = [
    "RolloutStarted: rollout started: pods are being created",
    "RolloutFinished: rollout finished: replicas 1",
]
SMALLER = {"engine": {"maxBatchSize": 4}}


@pytest.fixture
def cluster() -> ImaginedCluster:
    made = ImaginedCluster()
    made.apply("llava")
    made.inspected(tiny_facts())
    made.start("engine-")
    made.built()
    made.pods_ready("llava")
    return made


def since(cluster: ImaginedCluster) -> list[str]:
    assert cluster.story[:4] == [*BUILT, *SERVED]
    return cluster.story[4:]


def test_a_first_life_is_four_lines(cluster: ImaginedCluster) -> None:
    assert since(cluster) == []


def test_a_failed_build_is_reported_with_each_attempt(cluster: ImaginedCluster) -> None:
    cluster.apply("llava", SMALLER)
    cluster.broke(
        BuildFailure(
            reason=BuildReason.STEP_FAILED,
            step="fetch",
            exit_code=1,
            message="no luck",
            retryable=True,
        )
    )
    cluster.wait(600)
    cluster.built()
    cluster.pods_ready("llava")

    assert since(cluster) == [
        "BuildStarted: build started: Job engine-43aaed0089aeea6c-1, attempt 1",
        "BuildFailed: build failed: StepFailed: step fetch ended with exit code 1: no luck",
        "BuildStarted: build started: Job engine-43aaed0089aeea6c-2, attempt 2",
        "BuildSucceeded: build succeeded after 1.0 s of work",
        *SERVED,
    ]


def test_a_change_of_the_replicas_is_reported(cluster: ImaginedCluster) -> None:
    """More replicas of the same revision: how many there were, and that all of them answer."""
    cluster.apply("llava", {"replicas": 2})
    cluster.pods_ready("llava")

    assert since(cluster) == [
        "RolloutStarted: rollout started: 1 of 2 replicas of the revision answer",
        "RolloutFinished: rollout finished: replicas 2",
    ]


def test_an_engine_of_another_model_is_no_build(cluster: ImaginedCluster) -> None:
    cluster.apply("second")
    cluster.inspected(tiny_facts())
    cluster.pods_ready("second")

    assert since(cluster) == [
        "EngineReused: nothing to build: the engine is that of model demo/llava",
        *SERVED,
    ]


def test_a_refused_spec_is_reported_once(cluster: ImaginedCluster) -> None:
    """Each refusal is one line, however often it is looked at; another fault is another line."""
    for length in (100_000, 100_000, 200_000):
        cluster.apply("llava", {"engine": {"maxInputLen": length}})
        cluster.wait(60)

    first, second = since(cluster)
    assert first.startswith("Refused: refused: InvalidSpec: spec.engine.maxInputLen: 100000 leaves")
    assert second.startswith("Refused: refused: InvalidSpec: spec.engine.maxInputLen: 200000 leav")


def test_steps_of_the_autoscaler_are_reported() -> None:
    """Each change of the replicas that is new, oldest first, with its reason."""
    up = {"at": "1", "fromReplicas": 1, "toReplicas": 3, "reason": "ScaleUp: the queue grows"}
    down = {"at": "2", "fromReplicas": 3, "toReplicas": 2, "reason": "ScaleDown: little to do"}

    lines = story({"scaling": {"history": [up]}}, {"scaling": {"history": [down, up]}})

    assert [(line.event, line.text) for line in lines] == [
        ("Scaled", "replicas 3 -> 2: ScaleDown: little to do")
    ]


def test_a_line_stays_a_line() -> None:
    failed = {
        "type": "EngineBuilt",
        "status": "False",
        "reason": "StepFailed",
        "message": "x" * 2000 + "\nsecond",
    }

    (line,) = story({}, {"conditions": [failed]})

    assert (len(line.text), "\n" in line.text) == (TEXT_LIMIT, False)
