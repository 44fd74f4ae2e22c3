"""A LeaderWorkerSet is read as a Deployment whose pods are the leaders of its groups."""

from typing import Any

import yaml

from mm_operator.cluster.deployments import group_state, with_pods
from mm_operator.model import PodState
from support.cases import cases
from support.model_configs import facts_of
from support.staged import inspected

READY = PodState(serving_hash="new", phase="Running", ready=True)
STARTS = PodState(serving_hash="new", phase="Running", ready=False)
FORMER = PodState(serving_hash="old", phase="Running", ready=True)
GROUPS = """
metadata: {name: tiny-nodes, uid: uid, generation: 3}
spec:
  replicas: 2
  leaderWorkerTemplate:
    leaderTemplate: {metadata: {annotations: {serving.multimodal.dev/serving-hash: new}}, spec: {}}
status: {replicas: 2, updatedReplicas: 2, conditions: [{type: Available, status: 'True'}]}
"""


@cases(
    "ready pods counts",
    {
        "complete": (2, (READY, READY), (2, 2, 2)),
        # Its controller has not seen the template of which the pods are not.
        "counted-before-the-change": (2, (FORMER, FORMER), (0, 2, 2)),
        "counted-before-a-loss": (2, (READY, STARTS), (2, 1, 1)),
        "worker-not-ready": (1, (READY, READY), (2, 1, 1)),
    },
)
def test_counters_are_no_newer_than_the_pods(
    ready: int, pods: tuple[PodState, ...], counts: tuple[int, int, int]
) -> None:
    found = yaml.safe_load(GROUPS)
    found["status"]["readyReplicas"] = ready
    state = with_pods(group_state(found), pods)
    assert (state.updated, state.available, state.ready) == counts
    assert (state.wanted, state.replicas, state.was_complete) == (2, 2, True)


def test_without_its_kind_nothing_is_made() -> None:
    """Nothing is built for groups that cannot be made; other models do not notice."""
    split = {"backend": "VLLM", "parallelism": {"tensor": 2, "nodes": 2}}
    spec: dict[str, Any] = {"engine": split, "runtime": {"gpu": {"product": "NVIDIA-L4"}}}
    away: dict[str, Any] = {"facts": facts_of("llava"), "groups_missing": "it is away"}
    problem = inspected(spec, refused=True, **away)[1].problem
    assert (problem.reason, problem.path) == ("NotSupported", "spec.engine.parallelism.nodes")
    assert "it is away. Install it and set" in problem.message
    assert inspected({}, groups_missing="it is away")[1].problem is None
