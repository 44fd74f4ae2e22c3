"""Strategy Auto: what it looks for when a rollout begins, and which way it goes then."""

from dataclasses import replace
from typing import Any

from mm_operator.model import (
    DeploymentState,
    GpuNeed,
    Plan,
    PodState,
    RolloutDecision,
    Snapshot,
    SpareGpus,
)
from mm_operator.plan import decide
from support.cases import cases
from support.staged import children, inspected

MEMORY = {"memory": "80Gi", "computeCapability": "9.0"}
GPU: dict[str, Any] = {"runtime": {"gpu": {"count": 1, **MEMORY}}, "vision": {"engine": "Torch"}}
CLAIMS: dict[str, Any] = {
    "runtime": {"gpu": {"count": 1, "deviceClassName": "gpu.nvidia.com", **MEMORY}},
    "vision": {"engine": "Torch"},
}
AUTO: dict[str, Any] = {"rollout": {"strategy": "Auto"}}
FREE = SpareGpus(free=True, why="1 nvidia.com/gpu for one more pod is free")
FULL = SpareGpus(free=False, why="no node has 1 nvidia.com/gpu for one more pod free")
UNKNOWN = SpareGpus(free=None, why="nodes cannot be read")


def deployment(served: str, **fields: Any) -> DeploymentState:
    return DeploymentState("llava", "uid", 1, 1, 1, 2, 1, 1, 1, serving_hash=served, **fields)


def stage(
    spec: dict[str, Any],
    *,
    served: str | None = "old",
    spare: SpareGpus | None = None,
    **fields: Any,
) -> tuple[Snapshot, Plan]:
    """Return a model that serves a revision (None: the planned one) and what is decided."""
    snapshot, plan = inspected(spec, built=True, spare_gpus=spare)
    live = deployment(served or plan.rollout.serving_hash, **fields)
    pods = (PodState(serving_hash="old", phase="Running", ready=True),)
    observed = replace(snapshot.observed, deployment=live, pods=pods)
    snapshot = replace(snapshot, observed=observed)
    return snapshot, decide(snapshot)


def rollout(*given: Any, **fields: Any) -> RolloutDecision:
    return stage(*given, **fields)[1].rollout


def test_it_looks_before_it_rolls() -> None:
    """GPUs of one more server; with an encoder in pods of its own that one's, too."""
    need = rollout(GPU | AUTO).need
    assert need == GpuNeed("nvidia.com/gpu", (1,))
    slices = {"count": 1, "resourceName": "nvidia.com/mig-3g.40gb", "memory": "40Gi"}
    taint = [{"key": "gpu", "operator": "Exists"}]
    placed = {
        "runtime": {
            "gpu": {**slices, "computeCapability": "9.0"},
            "nodeSelector": {"pool": "a"},
            "tolerations": taint,
        },
        "vision": {"engine": "Torch", "placement": "Disaggregated"},
    }
    need = rollout(placed | AUTO).need
    assert need is not None
    assert (need.resource, need.pods) == ("nvidia.com/mig-3g.40gb", (1, 1))
    assert need.node_labels == {"pool": "a"}
    assert [one.key for one in need.tolerations] == ["gpu"]


@cases(
    "spare recreate said",
    {
        "free": (FREE, False, f"Auto rolls, because {FREE.why}"),
        "full": (FULL, True, f"Auto ends the old pods first, because {FULL.why}"),
        "unknown": (UNKNOWN, False, f"Auto rolls, because {UNKNOWN.why}"),
    },
)
def test_the_answer_decides(spare: SpareGpus, *, recreate: bool, said: str) -> None:
    """Old pods end first only where it is known that nothing is free; the Deployment says why."""
    snapshot, plan = stage(GPU | AUTO, spare=spare)
    assert (plan.rollout.recreate, plan.rollout.choice, plan.rollout.need) == (recreate, said, None)
    assert plan.rollout.message == f"pods are being created; {said}"
    made = children((snapshot, plan))["Deployment/server"]
    assert made["spec"]["strategy"]["type"] == ("Recreate" if recreate else "RollingUpdate")
    assert said in made["metadata"]["annotations"].values()


def test_the_choice_stays_for_the_rollout() -> None:
    """While the new pods come, what is free says nothing: the choice is the Deployment's."""
    said = "Auto ends the old pods first, because it was so"
    found = rollout(GPU | AUTO, served=None, spare=FREE, recreates=True, choice=said)
    assert (found.recreate, found.need) == (True, None)
    assert found.message.endswith(f"; {said}")


def test_a_rollout_under_way_is_looked_at_once_it_is_auto() -> None:
    """One that waits for a GPU gets its way out when the strategy becomes Auto."""
    assert rollout(GPU | AUTO, served=None).need is not None
    assert rollout(GPU | AUTO, served=None, spare=FULL).recreate


@cases(
    "spec recreate choice",
    {
        "no-gpu": (AUTO, False, "Auto rolls, because the pods use no GPU"),
        "claims": (
            CLAIMS | AUTO,
            False,
            (
                "Auto rolls, because free devices of gpu.nvidia.com are not counted: "
                "strategy Recreate needs none"
            ),
        ),
        "rolling": (GPU, False, ""),
        "recreate": (GPU | {"rollout": {"strategy": "Recreate"}}, True, ""),
    },
)
def test_others_do_not_look(spec: dict[str, Any], *, recreate: bool, choice: str) -> None:
    found = rollout(spec)
    assert (found.need, found.recreate, found.choice) == (None, recreate, choice)


def test_the_first_pods_replace_none() -> None:
    """Nothing holds a GPU of this model yet: the way does not matter, and no node is read."""
    _, plan = inspected(GPU | AUTO, built=True)
    assert (plan.rollout.need, plan.rollout.recreate) == (None, False)
