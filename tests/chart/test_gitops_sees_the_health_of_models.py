"""Argo CD and Flux judge a model as its conditions do, by the files that the chart ships.

The Lua runs in Lua 5.1, which is Argo CD's; CEL is evaluated in the order that Flux's reference of
`spec.healthCheckExprs` gives. Statuses are those that the operator writes in lives of models.
"""

from collections.abc import Callable
from typing import Any

import cel
import pytest
import yaml
from lupa.lua51 import LuaRuntime

from mm_api import labels
from mm_api.conditions import ConditionType, Reason
from mm_api.documents.build_result import BuildFailure, BuildReason
from mm_api.documents.model_facts import InspectError, InspectReason
from mm_operator.model import PodState
from support.cases import cases
from support.chart import CHART
from support.imagined_cluster import ImaginedCluster
from support.models import tiny_facts

FILES = CHART / "gitops"
ARGOCD = yaml.safe_load((FILES / "argocd-cm.yaml").read_text())["data"]
FLUX = yaml.safe_load((FILES / "flux-kustomization.yaml").read_text())["spec"]
KEY = f"resource.customizations.health.{labels.GROUP}_{labels.KIND}"
SAME = {
    "Healthy": "current",
    "Suspended": "current",
    "Progressing": "inProgress",
    "Degraded": "failed",
}
"""Flux has no word for a model without replicas: it is as it was applied."""


def argocd(document: dict[str, Any]) -> tuple[str, str]:
    lua = LuaRuntime(unpack_returned_tuples=True)
    check = lua.eval(f"function(obj)\n{ARGOCD[KEY]}\nend")
    health = check(lua.table_from(document, recursive=True))
    return str(health["status"]), str(health["message"])


def flux(document: dict[str, Any]) -> str:
    """Return the first expression that is true; one that cannot be evaluated waits."""
    (checks,) = FLUX["healthCheckExprs"]
    for name in ("inProgress", "failed", "current"):
        try:
            if cel.evaluate(checks[name], document):
                return name
        except RuntimeError:  # an undeclared reference: there is no status
            return "inProgress"
    return "inProgress"


class Recorded(ImaginedCluster):
    """A namespace that keeps every document of its models."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: list[dict[str, Any]] = []

    def reconcile(self, name: str) -> bool:
        changed = super().reconcile(name)
        self.documents.append(document(self, name))
        return changed


def document(cluster: ImaginedCluster, name: str = "llava") -> dict[str, Any]:
    """Return a model as the API server holds it, as far as health follows from it."""
    model = cluster.models[name]
    return {"metadata": {"generation": model.generation}, "status": dict(model.status)}


def served(cluster: ImaginedCluster) -> None:
    built(cluster)
    cluster.pods_ready("llava")


def built(cluster: ImaginedCluster) -> None:
    cluster.apply("llava")
    cluster.inspected(tiny_facts())
    cluster.built()


def without_replicas(cluster: ImaginedCluster) -> None:
    served(cluster)
    cluster.apply("llava", {"replicas": 0})
    cluster.pods_ready("llava")


def rolling_out(cluster: ImaginedCluster) -> None:
    served(cluster)
    cluster.apply("llava", {"gateway": {"maxImageBytes": 1_000_000}})


def unschedulable(cluster: ImaginedCluster) -> None:
    built(cluster)
    said = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    cluster.trouble("llava", PodState("", "Pending", ready=False, unschedulable=said))


def refused(cluster: ImaginedCluster) -> None:
    cluster.apply("llava")
    error = InspectError(reason=InspectReason.SOURCE_NOT_FOUND, message="no directory models/x")
    cluster.refused(error)


def broken(cluster: ImaginedCluster) -> None:
    cluster.apply("llava")
    cluster.inspected(tiny_facts())
    failure = BuildFailure(
        reason=BuildReason.VERIFICATION_FAILED,
        step="verify-vision",
        exit_code=3,
        message="differs by 3.1",
        retryable=False,
    )
    cluster.broke(failure)


def served_with_another_spec(cluster: ImaginedCluster) -> None:
    served(cluster)
    cluster.apply("llava", {"engine": {"maxBatchSize": 2}})


@cases(
    "life expected",
    {
        "inspected": (lambda cluster: cluster.apply("llava"), "Progressing"),
        "pods-start": (built, "Progressing"),
        "served": (served, "Healthy"),
        "another-spec": (served_with_another_spec, "Progressing"),
        "rolling-out": (rolling_out, "Progressing"),
        "no-replicas": (without_replicas, "Suspended"),
        "unschedulable": (unschedulable, "Degraded"),
        "refused": (refused, "Degraded"),
        "broken": (broken, "Degraded"),
    },
)
def test_a_life_ends_in_a_health(life: Callable[[ImaginedCluster], None], expected: str) -> None:
    """And at each step both tools say the same, with the message of the condition."""
    cluster = Recorded()
    life(cluster)

    health, message = argocd(document(cluster))
    messages = {one["message"] for one in document(cluster)["status"]["conditions"]}
    assert health == expected
    assert message in messages
    for one in cluster.documents:
        assert flux(one) == SAME[argocd(one)[0]]


def test_a_status_of_a_former_spec_is_not_believed() -> None:
    """Between the apply and the operator's next look the conditions are those of before."""
    cluster = Recorded()
    served(cluster)
    behind = document(cluster)
    behind["metadata"]["generation"] += 1

    assert argocd(behind)[0] == "Progressing"
    assert flux(behind) == "inProgress"


@pytest.mark.parametrize(
    "status",
    [None, {}, {"conditions": []}, {"observedGeneration": 1}],
    ids=["none", "empty", "no-generation", "no-conditions"],
)
def test_a_model_that_no_operator_has_seen_is_waited_for(status: dict[str, Any] | None) -> None:
    """Without an operator it is not healthy, which is what Argo CD says of unknown kinds."""
    bare: dict[str, Any] = {"metadata": {"generation": 1}}
    if status is not None:
        bare["status"] = status
    assert argocd(bare)[0] == "Progressing"
    assert flux(bare) == "inProgress"


def test_files_name_what_the_api_has() -> None:
    (checks,) = FLUX["healthCheckExprs"]
    assert list(ARGOCD) == [KEY]
    assert (checks["apiVersion"], checks["kind"]) == (labels.API_VERSION, labels.KIND)
    for word in (
        ConditionType.READY,
        ConditionType.DEGRADED,
        ConditionType.ENGINE_BUILT,
        ConditionType.ROLLING_OUT,
        Reason.NO_REPLICAS,
    ):
        assert word in ARGOCD[KEY]
        assert word in checks["inProgress"] or word is Reason.NO_REPLICAS
