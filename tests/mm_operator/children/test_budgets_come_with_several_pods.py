"""A drain takes several replicas one after the other; what has one pod has no budget."""

from dataclasses import replace

from mm_operator.model import DeploymentState
from support.cases import cases
from support.staged import children, inspected


@cases(
    "replicas pods kept",
    {
        "no-deployment-yet": (3, None, False),
        "one-pod-of-three": (3, 1, False),
        "two-pods-of-three": (3, 2, True),
        "three-pods": (3, 3, True),
        "on-the-way-to-one": (1, 2, False),
    },
)
def test_a_budget_keeps_pods_that_exist(replicas: int, pods: int | None, *, kept: bool) -> None:
    """It comes with the second pod, after the Deployment, and goes with the wish for it."""
    snapshot, plan = inspected({"replicas": replicas}, built=True)
    if pods is not None:
        deployment = DeploymentState(snapshot.name, "u", 1, 1, replicas, pods, 0, 0, 0)
        observed = replace(snapshot.observed, deployment=deployment)
        snapshot = replace(snapshot, observed=observed)

    objects = children((snapshot, plan))

    assert ("PodDisruptionBudget/server" in objects) is kept
    if kept:
        spec = objects["PodDisruptionBudget/server"]["spec"]
        template = objects["Deployment/server"]["spec"]["template"]
        assert spec["maxUnavailable"] == 1
        assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
