"""Who else moves a model's replicas, in the objects that the API server holds."""

from collections.abc import AsyncIterator
from typing import Any

from mm_api import labels
from mm_operator.cluster.keys import Key
from mm_operator.scaling.conflicting_autoscalers import ConflictingAutoscalers
from support.cases import cases

MODEL = Key("demo", "llava")


class Listed:
    """An API server's list of HorizontalPodAutoscalers."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = list(items)

    async def list(self, *_: object) -> AsyncIterator[tuple[list[Any], str]]:
        yield self.items, ""


def autoscaler(kind: str, target: str, *owners: tuple[str, str]) -> dict[str, Any]:
    references = [{"kind": kind, "name": name} for kind, name in owners]
    return {
        "metadata": {"name": "rival", "namespace": "demo", "ownerReferences": references},
        "spec": {"scaleTargetRef": {"kind": kind, "name": target}},
    }


@cases(
    "found engine expected",
    {
        "model": (autoscaler(labels.KIND, "llava"), "Builtin", "rival"),
        "deployment": (autoscaler("Deployment", "llava"), "Builtin", "rival"),
        "deployment-and-keda": (autoscaler("Deployment", "llava"), "KEDA", "rival"),
        "another-deployment": (autoscaler("Deployment", "shop"), "Builtin", ""),
        "another-kind": (autoscaler("StatefulSet", "llava"), "Builtin", ""),
        "another-model": (autoscaler(labels.KIND, "other"), "Builtin", ""),
        "of-an-operator-with-engine-hpa": (
            autoscaler(labels.KIND, "llava", (labels.KIND, "llava")),
            "Builtin",
            "rival",
        ),
        "keda": (autoscaler(labels.KIND, "llava", ("ScaledObject", "llava")), "KEDA", ""),
        "keda-left-behind": (
            autoscaler(labels.KIND, "llava", ("ScaledObject", "llava")),
            "Builtin",
            "rival",
        ),
    },
)
async def test_who_moves_replicas_beside_the_engine(
    found: dict[str, Any], engine: str, expected: str
) -> None:
    client: Any = Listed(found)
    conflicts = ConflictingAutoscalers(client)
    await conflicts.refresh([MODEL])

    assert conflicts.name(MODEL, engine) == expected


async def test_autoscalers_of_other_deployments_cost_no_further_looks() -> None:
    """A namespace is looked at every half minute only while a model of it is contested."""
    now = [0.0]
    client: Any = Listed(autoscaler("Deployment", "shop"))
    conflicts = ConflictingAutoscalers(client, clock=lambda: now[0])
    await conflicts.refresh([MODEL])
    client.items = [autoscaler("Deployment", "llava")]

    now[0] = 31.0
    await conflicts.refresh([MODEL])
    before = conflicts.name(MODEL, "Builtin")
    now[0] = 301.0
    await conflicts.refresh([MODEL])

    assert (before, conflicts.name(MODEL, "Builtin")) == ("", "rival")
