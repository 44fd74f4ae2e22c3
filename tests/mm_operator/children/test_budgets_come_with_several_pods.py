"""A drain takes several replicas one after the other; what has one pod has no budget."""

from dataclasses import replace

import pytest

from mm_operator.model import DeploymentState
from support.staged import children, inspected


@pytest.mark.parametrize(
    ("replicas", "pods", "kept"),
    [
        pytest.param(3, None, False, id="no-deployment-yet"),
        pytest.param(3, 1, False, id="one-pod-of-three"),
        pytest.param(3, 2, True, id="two-pods-of-three"),
        pytest.param(3, 3, True, id="three-pods"),
        pytest.param(1, 2, False, id="on-the-way-to-one"),
    ],
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
